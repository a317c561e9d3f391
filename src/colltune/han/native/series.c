/* Reads the plan; hantasks.c tells its lines. */
#include "hantasks.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

plan_t plan;
series_t *series;
int n_series;

static int fits(const series_t *s) {
    /* reductions are of integers where all sizes allow it: segments must not cut one */
    int whole = s->most == 1 || s->segment % sizeof(int) == 0;
    return s->config >= 0 && s->config < plan.n_configs && s->nodes >= 2 && s->nodes <= plan.nodes &&
           s->ppn >= 2 && s->ppn <= plan.ppn && s->segment > 0 && whole && s->least >= 1 &&
           s->most >= s->least && (s->most == s->least || s->least > first_steady(s)) &&
           s->segment <= (size_t)(INT_MAX / s->most) && s->reps >= 1;
}

static void parse_series(const char *line) {
    series_t s;
    char name[NAME_LENGTH];
    int found = sscanf(line, "%d %95s %d %d %zu %15s %15s %d %d %d %lf", &s.config, name, &s.nodes,
                       &s.ppn, &s.segment, s.up, s.low, &s.least, &s.most, &s.reps, &s.tolerance);
    if (found != 11) die("bad series ", line);
    s.collective = find_collective(name);
    if (!s.collective || (strcmp(name, "bcast") && strcmp(name, "allreduce")))
        die("no tasks are known of ", name);
    if (!fits(&s)) die("bad series ", line);
    series = grown(series, n_series, sizeof *series);
    series[n_series++] = s;
}

static int parse_head(const char *line) {
    if (!strncmp(line, "budget ", 7)) plan.budget = strtod(line + 7, NULL);
    else if (!strncmp(line, "owner ", 6))
        return sscanf(line + 6, "%95s %ld", plan.owner_host, &plan.owner) == 2;
    else if (!strncmp(line, "layout ", 7))
        return sscanf(line + 7, "%d %d", &plan.nodes, &plan.ppn) == 2;
    else return 0;
    return 1;
}

static void parse_line(char *line) {
    if (!strcmp(line, "config")) parse_config(line + 6);
    else if (!strncmp(line, "config ", 7)) parse_config(line + 7);
    else if (!strncmp(line, "series ", 7)) parse_series(line + 7);
    else if (*line && !parse_head(line)) die("bad plan line ", line);
}

void load_series(const char *path) {
    static const char HEAD[] = "colltune-han-plan 1\n";
    char *text = read_shared_text(path), *end;
    if (strncmp(text, HEAD, sizeof HEAD - 1)) die("not a plan of tasks of version 1: ", path);
    for (char *line = text + sizeof HEAD - 1; line && *line; line = end) {
        end = strchr(line, '\n');
        if (end) *end++ = '\0';
        parse_line(line);
    }
    if (plan.nodes < 1 || plan.ppn < 1) die("no layout in ", path);
    free(text);
}

size_t longest_message(void) {
    size_t longest = 1;
    for (int i = 0; i < n_series; i++) {
        size_t message = series[i].segment * (size_t)series[i].most;
        if (message > longest) longest = message;
    }
    return longest;
}
