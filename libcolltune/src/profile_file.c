/* A job's profile as a file: docs/reference/formats.md tells what stands in it. Nothing of the
 * program's arguments or environment does. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "profile.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { VERSION = 2, NAME_LENGTH = 64 };
enum { MOST_BYTES = 60 << 10 }; /* of a site's file */

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

/* FNV-1a */
static uint64_t digest(const char *text, size_t length) {
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(1099511628211);
    return hash;
}

/* ---- what a Python runs ---- */

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The program's arguments, each closed by a NUL, and an empty one behind them. */
static void read_arguments(char *text, size_t room) {
    FILE *file = fopen("/proc/self/cmdline", "re");
    memset(text, 0, room);
    if (!file) return;
    if (fread(text, 1, room - 2, file) == room - 2) text[room - 3] = 0; /* more than there is room for */
    fclose(file);
}

static const char *next_argument(const char *argument) { return argument + strlen(argument) + 1; }

/* mpi4py runs another program. */
static int is_runner(const char *module) {
    return !strcmp(module, "mpi4py") || !strcmp(module, "mpi4py.run") ||
           !strcmp(module, "mpi4py.futures");
}

/* The script or module behind the interpreter's options; NULL: there is none, but a text or input. */
static const char *script_of(const char *argument, int *is_module) {
    for (argument = next_argument(argument); *argument; argument = next_argument(argument)) {
        if (*argument != '-') return argument;
        if (argument[1] == '-' || !argument[1]) {
            if (!argument[1]) return NULL;
            if (!strcmp(argument, "--check-hash-based-pycs")) argument = next_argument(argument);
            continue;
        }
        const char *option = argument + 1 + strcspn(argument + 1, "cmWX");
        if (!*option) continue;
        if (*option == 'c') return NULL;
        const char *value = option[1] ? option + 1 : next_argument(argument);
        if (*option == 'm' && !is_runner(value)) {
            *is_module = 1;
            return *value ? value : NULL;
        }
        if (!option[1]) argument = value;
        if (!*argument) return NULL;
    }
    return NULL;
}

/* Of a script the path, of a module the name, and else the path of what runs. */
static void program_path(char path[CT_PATH_LENGTH]) {
    char arguments[CT_PATH_LENGTH], *found = NULL;
    int is_module = 0;
    ssize_t length = readlink("/proc/self/exe", path, CT_PATH_LENGTH - 1);
    path[length > 0 ? length : 0] = 0;
    const char *name = base_name(path);
    if (strncmp(name, "python", 6) && strncmp(name, "pypy", 4)) return;
    read_arguments(arguments, sizeof arguments);
    const char *script = *arguments ? script_of(arguments, &is_module) : NULL;
    if (!script) return;
    if (!is_module) found = realpath(script, NULL);
    snprintf(path, CT_PATH_LENGTH, "%s", found ? found : script);
    free(found);
}

static void program_name(char *word, int has_name) {
    char path[CT_PATH_LENGTH] = "";
    program_path(path);
    if (has_name) plain_word(word, base_name(path));
    else snprintf(word, NAME_LENGTH, "#%016" PRIx64, digest(path, strlen(path)));
}

/* Whose settings the job has: of an arm of the site's comparison, or the user's own. */
static const char *arm(void) {
    static const char *const arms[] = {"tuned", "candidate", "control", "own"};
    const char *found = getenv("COLLTUNE_ARM");
    for (size_t i = 0; found && i < sizeof arms / sizeof *arms; i++)
        if (!strcmp(found, arms[i])) return arms[i];
    return "-";
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

/* The first `shown` records stand in the file. */
static void print_head(FILE *out, const ct_place_t *place, const ct_run_t *run, size_t shown) {
    char word[NAME_LENGTH], date[NAME_LENGTH], library[NAME_LENGTH], release[NAME_LENGTH];
    const ct_totals_t *totals = &run->totals;
    const char *names = getenv("COLLTUNE_RECORD_NAMES");
    time_t began = time(NULL) - (time_t)totals->wall_s;
    double left_s = 0;
    struct tm utc;
    fprintf(out, "colltune-profile %d\n", VERSION);
    ct_library(library, release, NAME_LENGTH);
    fprintf(out, "library %s %s\n", library, release);
    program_name(word, !place->is_site || (names && !strcmp(names, "1")));
    fprintf(out, "program %s\n", word);
    job_name(word);
    fprintf(out, "job %s\n", word);
    host_name(word);
    fprintf(out, "host %s\n", place->is_site ? "-" : word);
    if (gmtime_r(&began, &utc) && strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc))
        fprintf(out, "started %s\n", date);
    fprintf(out, "world %d ", run->world.size);
    print_layout(out, run->world.nodes, run->world.ppn);
    fprintf(out, "\nrate %" PRIu32 "\nwall_s %.9g\n", run->rate, totals->wall_s);
    fprintf(out, "collectives_s %.9g %.9g %.9g\n", totals->collective_s / run->world.size,
            totals->least_s, totals->most_s);
    for (size_t i = shown; i < run->records.n; i++) left_s += run->records.items[i].time_s;
    fprintf(out, "lost_calls %" PRIu64 "\narm %s\n", totals->lost_calls, arm());
    fprintf(out, "left_out %zu %.9g\n", run->records.n - shown, left_s);
}

/* Write each configuration's line, once, and return the number of that of each record; 0 is the
 * library's own choice. NULL: no memory. */
static int *print_configurations(FILE *out, const ct_record_t *records, size_t n) {
    int *numbers = calloc(n + 1, sizeof *numbers), known = 0;
    for (size_t i = 0; numbers && i < n; i++) {
        const char *id = records[i].id;
        for (size_t j = 0; *id && j < i && !numbers[i]; j++)
            if (!strcmp(id, records[j].id)) numbers[i] = numbers[j];
        if (!*id || numbers[i]) continue;
        numbers[i] = ++known;
        fprintf(out, "configuration %d %s\n", known, id);
    }
    return numbers;
}

static void print_times(FILE *out, const uint64_t *times) {
    char before = ' ';
    for (int i = 0; times && i < CT_TIMES; i++) {
        if (!times[i]) continue;
        fprintf(out, "%c%d:%" PRIu64, before, CT_FIRST_TIME + i, times[i]);
        before = ',';
    }
    fputs(before == ' ' ? " -\n" : "\n", out);
}

static void print_record(FILE *out, const ct_record_t *r, int configuration) {
    uint64_t first = r->bin ? UINT64_C(1) << (r->bin - 1) : 0;
    fprintf(out, "row %s %d ", ct_collective_names[r->collective], r->size);
    print_layout(out, r->nodes, r->ppn);
    fprintf(out, " %" PRIu64 " %d %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, first,
            configuration, r->calls, r->bytes, r->least_bytes, r->most_bytes, r->timed);
    fprintf(out, " %.9g %.9g %.9g %.9g %.9g", r->timed_s, r->least_s, r->most_s, r->squares_s2,
            r->time_s);
    print_times(out, r->times);
}

static int print_all(FILE *out, const ct_place_t *place, const ct_run_t *run, size_t shown) {
    const ct_record_t *records = run->records.items;
    print_head(out, place, run, shown);
    int *numbers = print_configurations(out, records, shown);
    if (!numbers) return 0;
    fputs("columns collective size layout first_bytes configuration calls bytes least_bytes"
          " most_bytes timed timed_s least_s most_s squares_s2 time_s times\n", out);
    for (size_t i = 0; i < shown; i++) print_record(out, &records[i], numbers[i]);
    free(numbers);
    return 1;
}

/* The whole text, to be freed; NULL: no memory. */
static char *text_of(const ct_place_t *place, const ct_run_t *run, size_t shown, size_t *length) {
    char *text = NULL;
    FILE *out = open_memstream(&text, length);
    if (!out) return NULL;
    int good = print_all(out, place, run, shown);
    good = fflush(out) == 0 && good;
    if (good) fprintf(out, "end %016" PRIx64 "\n", digest(text, *length));
    good = fclose(out) == 0 && good;
    if (good) return text;
    free(text);
    return NULL;
}

static int by_time(const void *left, const void *right) {
    const ct_record_t *a = left, *b = right;
    return (a->time_s < b->time_s) - (a->time_s > b->time_s);
}

/* As text_of; of a site's file the records of least time are left out until it is short. */
static char *short_text_of(const ct_place_t *place, ct_run_t *run, size_t *length) {
    size_t shown = run->records.n;
    if (place->is_site && shown) qsort(run->records.items, shown, sizeof *run->records.items, by_time);
    char *text = text_of(place, run, shown, length);
    while (text && place->is_site && *length > MOST_BYTES && shown) {
        size_t fewer = shown * MOST_BYTES / *length;
        shown = fewer < shown ? fewer : shown - 1;
        free(text);
        text = text_of(place, run, shown, length);
    }
    return text;
}

/* 1 if `text` is now the file `path`, which nobody ever sees in part. */
static int put_whole(const char *path, const char *hidden, const char *text, size_t length,
                     int is_site) {
    int file = open(hidden, O_WRONLY | O_CREAT | O_EXCL, 0666), good = 1;
    if (file < 0) return 0;
    for (size_t done = 0; good && done < length;) {
        ssize_t n = write(file, text + done, length - done);
        if (n > 0) done += (size_t)n;
        else good = n < 0 && errno == EINTR;
    }
    /* the site reads it, whatever the user's umask */
    if (is_site) good = good && fchmod(file, 0644) == 0;
    else good = good && fsync(file) == 0; /* a shared file system may tell only now that it is full */
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

void ct_profile_write(const ct_place_t *place, ct_run_t *run) {
    char name[3 * NAME_LENGTH], path[CT_PATH_LENGTH + sizeof name + 2], hidden[sizeof path + 2];
    size_t length = 0;
    sigset_t before;
    /* numbers have points, whatever the program's language */
    locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0), theirs = uselocale(plain);
    char *text = short_text_of(place, run, &length);
    uselocale(theirs);
    if (plain) freelocale(plain);
    if (!text) {
        ct_log(0, "the profile is lost: no memory");
        return;
    }
    file_name(name, sizeof name);
    snprintf(path, sizeof path, "%s/%s", place->folder, name);
    snprintf(hidden, sizeof hidden, "%s/.%s", place->folder, name);
    ct_hold_limit(&before);
    int is_there = put_whole(path, hidden, text, length, place->is_site);
    ct_release_limit(&before);
    if (is_there) ct_log(1, "profile: %s", path);
    else ct_log(0, "the profile is lost: %s: %s", path, strerror(errno));
    free(text);
}
