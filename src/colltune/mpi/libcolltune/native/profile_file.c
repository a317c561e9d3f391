/* A job's profile as a file: docs/reference/formats.md tells what stands in it. Nothing of the
 * program's arguments or environment does. */
#include "profile.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { VERSION = 1, NAME_LENGTH = 64 };

/* At most NAME_LENGTH - 1 letters, digits and `.+-_` of `text`; "-" if there are none. */
static void plain_word(char *word, const char *text) {
    size_t n = 0;
    for (; text && *text && n < NAME_LENGTH - 1; text++)
        word[n++] = isalnum((unsigned char)*text) || strchr(".+-_", *text) ? *text : '_';
    if (!n) word[n++] = '-';
    word[n] = 0;
}

static void job_name(char *word) {
    const char *const names[] = {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID"};
    const char *found = NULL;
    for (size_t i = 0; !found && i < sizeof names / sizeof *names; i++) found = getenv(names[i]);
    plain_word(word, found);
}

static void program_name(char *word) {
    char path[CT_PATH_LENGTH] = "";
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = 0;
    const char *slash = strrchr(path, '/');
    plain_word(word, slash ? slash + 1 : path);
}

static void host_name(char *word) {
    char host[NAME_LENGTH] = "";
    if (gethostname(host, sizeof host - 1)) host[0] = 0;
    plain_word(word, host);
}

/* 4x2; 4x- if nodes hold different numbers of processes; - if nothing is known. */
static void print_layout(FILE *out, int nodes, int ppn) {
    if (nodes < 1) fputs("-", out);
    else if (ppn < 1) fprintf(out, "%dx-", nodes);
    else fprintf(out, "%dx%d", nodes, ppn);
}

static void print_head(FILE *out, uint32_t rate, const ct_shape_t *world,
                       const ct_totals_t *totals) {
    char word[NAME_LENGTH], date[NAME_LENGTH], library[NAME_LENGTH], release[NAME_LENGTH];
    time_t began = time(NULL) - (time_t)totals->wall_s;
    struct tm utc;
    fprintf(out, "colltune-profile %d\n", VERSION);
    ct_library(library, release, NAME_LENGTH);
    fprintf(out, "library %s %s\n", library, release);
    program_name(word);
    fprintf(out, "program %s\n", word);
    job_name(word);
    fprintf(out, "job %s\n", word);
    host_name(word);
    fprintf(out, "host %s\n", word);
    if (gmtime_r(&began, &utc) && strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc))
        fprintf(out, "started %s\n", date);
    fprintf(out, "world %d ", world->size);
    print_layout(out, world->nodes, world->ppn);
    fprintf(out, "\nrate %" PRIu32 "\nwall_s %.9g\n", rate, totals->wall_s);
    fprintf(out, "collectives_s %.9g %.9g %.9g\n", totals->collective_s / world->size,
            totals->least_s, totals->most_s);
    fprintf(out, "lost_calls %" PRIu64 "\n", totals->lost_calls);
}

/* Write each configuration's line, once, and return the number of that of each record; 0 is the
 * library's own choice. NULL: no memory. */
static int *print_configurations(FILE *out, const ct_records_t *records) {
    int *numbers = calloc(records->n + 1, sizeof *numbers), known = 0;
    for (size_t i = 0; numbers && i < records->n; i++) {
        const char *id = records->items[i].id;
        for (size_t j = 0; *id && j < i && !numbers[i]; j++)
            if (!strcmp(id, records->items[j].id)) numbers[i] = numbers[j];
        if (!*id || numbers[i]) continue;
        numbers[i] = ++known;
        fprintf(out, "configuration %d %s\n", known, id);
    }
    return numbers;
}

static void print_record(FILE *out, const ct_record_t *r, int configuration) {
    uint64_t first = r->bin ? UINT64_C(1) << (r->bin - 1) : 0;
    fprintf(out, "row %s %d ", ct_collective_names[r->collective], r->size);
    print_layout(out, r->nodes, r->ppn);
    fprintf(out, " %" PRIu64 " %d %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, first,
            configuration, r->calls, r->bytes, r->least_bytes, r->most_bytes, r->timed);
    fprintf(out, " %.9g %.9g %.9g %.9g %.9g\n", r->timed_s, r->least_s, r->most_s, r->squares_s2,
            r->time_s);
}

static int print_all(FILE *out, uint32_t rate, const ct_shape_t *world,
                     const ct_records_t *records, const ct_totals_t *totals) {
    print_head(out, rate, world, totals);
    int *numbers = print_configurations(out, records);
    if (!numbers) return 0;
    fputs("columns collective size layout first_bytes configuration calls bytes least_bytes"
          " most_bytes timed timed_s least_s most_s squares_s2 time_s\n", out);
    for (size_t i = 0; i < records->n; i++) print_record(out, &records->items[i], numbers[i]);
    free(numbers);
    return 1;
}

/* FNV-1a */
static uint64_t digest(const char *text, size_t length) {
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(1099511628211);
    return hash;
}

/* The whole text, to be freed; NULL: no memory. */
static char *text_of(uint32_t rate, const ct_shape_t *world, const ct_records_t *records,
                     const ct_totals_t *totals, size_t *length) {
    char *text = NULL;
    FILE *out = open_memstream(&text, length);
    if (!out) return NULL;
    int good = print_all(out, rate, world, records, totals);
    good = fflush(out) == 0 && good;
    if (good) fprintf(out, "end %016" PRIx64 "\n", digest(text, *length));
    good = fclose(out) == 0 && good;
    if (good) return text;
    free(text);
    return NULL;
}

/* 1 if `text` is now the file `path`, which nobody ever sees in part. */
static int put_whole(const char *path, const char *hidden, const char *text, size_t length) {
    int file = open(hidden, O_WRONLY | O_CREAT | O_EXCL, 0666), good = 1;
    if (file < 0) return 0;
    for (size_t done = 0; good && done < length;) {
        ssize_t n = write(file, text + done, length - done);
        if (n > 0) done += (size_t)n;
        else good = n < 0 && errno == EINTR;
    }
    good = good && fsync(file) == 0; /* a shared file system may tell only now that it is full */
    good = close(file) == 0 && good;
    if (good && rename(hidden, path) == 0) return 1;
    int why = errno;
    unlink(hidden);
    errno = why;
    return 0;
}

/* job-host-pid-time: no other process ever takes the same. */
static void file_name(char *name, size_t length) {
    char job[NAME_LENGTH], host[NAME_LENGTH];
    struct timespec now;
    job_name(job);
    host_name(host);
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(name, length, "%s-%s-%ld-%lld%09ld.profile", strcmp(job, "-") ? job : "job", host,
             (long)getpid(), (long long)now.tv_sec, now.tv_nsec);
}

void ct_profile_write(const char *folder, uint32_t rate, const ct_shape_t *world,
                      const ct_records_t *records, const ct_totals_t *totals) {
    char name[3 * NAME_LENGTH], path[CT_PATH_LENGTH + sizeof name + 2], hidden[sizeof path + 2];
    size_t length = 0;
    char *text = text_of(rate, world, records, totals, &length);
    if (!text) {
        ct_log(0, "the profile is lost: no memory");
        return;
    }
    file_name(name, sizeof name);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    snprintf(hidden, sizeof hidden, "%s/.%s", folder, name);
    if (put_whole(path, hidden, text, length)) ct_log(1, "profile: %s", path);
    else ct_log(0, "the profile is lost: %s: %s", path, strerror(errno));
    free(text);
}
