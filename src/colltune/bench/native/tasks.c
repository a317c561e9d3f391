/* Times the tasks of coll/han's broadcast and allreduce on the two levels of a machine.
 *
 * The plan of collbench begins with another line and has series in place of cells and steps:
 *   colltune-han-plan 1
 *   series CONFIG COLLECTIVE NODES PPN SEGMENT UP LOW LEAST MOST REPS TOLERANCE
 *                                           tasks of a call with segments of so many bytes, from
 *                                           LEAST to MOST of them: as many as it takes until the
 *                                           tasks cost the same within TOLERANCE (0.1: 10 %);
 *                                           UP and LOW are components: adapt, libnbc, tuned, sm
 *
 * What is raw differs, too, and has no RAW.live:
 *   colltune-han-raw 1
 *   s SERIES                                the series begins
 *   t SERIES SEGMENTS REP LEADER SECONDS... what each task took on the leader of that node
 *   x SERIES STATUS TEXT                    wrong_result, not_applicable
 *   e SERIES steady|bounded|exact|none WALL the series has ended; bounded: MOST was not enough
 *   end plan|budget WALL                    why the program ended
 *
 * A broadcast of u segments has the tasks ib, u - 1 times sbib, sb; an allreduce sr, irsr, ibirsr,
 * u - 3 times sbibirsr, sbibir, sbib, sb, of which there are less with one or two segments: sr,
 * ir, ib, sb and sr, irsr, ibir, sbib, sb. */
#include "tasks.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

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

void parse_series(const char *line) {
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

static size_t longest_message(void) {
    size_t longest = 1;
    for (int i = 0; i < n_series; i++) {
        size_t message = series[i].segment * (size_t)series[i].most;
        if (message > longest) longest = message;
    }
    return longest;
}

static int same_shape(const series_t *a, const series_t *b) {
    return a->nodes == b->nodes && a->ppn == b->ppn;
}

/* The series first..end-1, all of one shape; 1 if the budget is over. */
static int measure_block(int first, int end, const call_t *buffers) {
    group_t *group = group_of(series[first].nodes, series[first].ppn);
    double over = 0;
    for (int i = first; group && i < end && !(over > 0); i++) {
        time_series(i, group, buffers);
        over = cut_short;
        exchange(group, &over, 1);
    }
    return over > 0;
}

int measure_tasks(void) {
    size_t longest = longest_message();
    call_t buffers = new_buffers(longest, longest);
    int over = 0;
    for (int at = 0, end; at < n_series && !over; at = end) {
        for (end = at + 1; end < n_series && same_shape(&series[at], &series[end]);) end++;
        /* those that are not in the group wait here, without burning cores */
        over = polite_maximum(measure_block(at, end, &buffers)) > 0;
    }
    return over;
}
