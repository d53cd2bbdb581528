/* Aligns the clocks of nodes with absolute clocks (a PTP hardware clock or ClockBound). The node
 * and the aggregator both read such a clock. Each pair of readings gives an upper and a lower limit
 * for the difference of the two RAW clocks. These inequalities are used together with those from
 * packets. */
#include "aggregator/clock/node_clock_int.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/obj.h"

static const mrd_stamp_source sources[MRD_ABSOLUTES] = { MRD_STAMP_PHC, MRD_STAMP_CLOCKBOUND };

/* A list of inequalities for a node's clock. Each pair of readings of an absolute clock gives two
 * inequalities. */
typedef struct {
    mrd_ineq *v;
    size_t n;
} pairs;

/* Returns the absolute readings that the aggregator made while it had the timeline `id`, sorted by
 * time. Returns NULL if out of memory. */
static mrd_abs *
server_readings(const mrd_node_clock *clock, const char *id, mrd_absolute kind, size_t *ret_n)
{
    mrd_abs *absolute = malloc((clock->n_server + 1) * sizeof(*absolute));
    size_t n = 0;

    for (size_t i = 0; absolute != NULL && i < clock->n_server; i++) {
        const mrd_server_reading *reading = &clock->server[i];

        if (strcmp(reading->id, id) == 0 &&
            mrd_host_reading_absolute(&reading->r, kind, &absolute[n]))
            absolute[n++].at.ns += reading->session_offset_ns;
    }
    *ret_n = absolute == NULL ? 0 : mrd_abs_order(absolute, n);
    return absolute;
}

static mrd_err
pairs_of_incarnation(const mrd_node_clock *clock, const mrd_boot_clock *boot_clock, const char *id,
                     mrd_absolute kind, pairs *to)
{
    size_t n;
    mrd_abs *server = server_readings(clock, id, kind, &n), node;

    if (server == NULL)
        return MRD_NOMEM;
    for (size_t i = 0; n > 1 && i < boot_clock->n_readings; i++) {
        if (mrd_host_reading_absolute(&boot_clock->readings[i], kind, &node) &&
            mrd_abs_ineqs(server, n, &node, mrd_follow_defaults.w, sources[kind], to->v + to->n))
            to->n += 2;
    }
    free(server);
    return MRD_OK;
}

/* Finds pairs of readings for a clock without packets. Only packets show which timeline of the
 * aggregator applies at which time. So pairs are used only if the aggregator had one timeline
 * during the session. */
static mrd_err
pairs_without_packets(const mrd_node_clock *clock, mrd_boot_clock *boot_clock, mrd_absolute kind,
                      pairs *to)
{
    const char *id = clock->n_server == 0 ? "" : clock->server[0].id;
    mrd_clock_incarnation *incarnation;
    mrd_err err;

    for (size_t i = 1; i < clock->n_server; i++) {
        if (strcmp(clock->server[i].id, id) != 0)
            return MRD_OK;
    }
    if ((err = pairs_of_incarnation(clock, boot_clock, id, kind, to)) != MRD_OK || to->n == 0)
        return err;
    if ((incarnation = calloc(1, sizeof(*incarnation))) == NULL)
        return MRD_NOMEM;
    snprintf(incarnation->id, sizeof(incarnation->id), "%s", id);
    incarnation->from = (mrd_local_ns){ to->v[0].t };
    incarnation->to = (mrd_local_ns){ to->v[to->n - 1].t };
    incarnation->began = (mrd_sess_ns){ incarnation->from.ns + to->v[0].v };
    incarnation->ended = (mrd_sess_ns){ incarnation->to.ns + to->v[to->n - 1].v };
    boot_clock->incarnations = incarnation;
    boot_clock->n_incarnations = boot_clock->cap_incarnations = 1;
    return MRD_OK;
}

static mrd_err
find_pairs(const mrd_node_clock *clock, mrd_boot_clock *boot_clock, mrd_absolute kind, pairs *to)
{
    mrd_err err = MRD_OK;

    /* each reading of the node gives at most one pair for each incarnation of the aggregator */
    *to = (pairs){ malloc((2 * boot_clock->n_readings * (boot_clock->n_incarnations + 1) + 1) *
                          sizeof(*to->v)),
                   0 };
    if (to->v == NULL)
        return MRD_NOMEM;
    if (boot_clock->n_incarnations == 0 && boot_clock->n_probes == 0)
        return pairs_without_packets(clock, boot_clock, kind, to);
    for (size_t l = 0; l < boot_clock->n_incarnations && err == MRD_OK; l++) {
        /* true if an earlier incarnation has the same id, because the list may contain an id
         * twice */
        bool seen = false;

        for (size_t k = 0; k < l && !seen; k++)
            seen = strcmp(boot_clock->incarnations[k].id, boot_clock->incarnations[l].id) == 0;
        if (!seen)
            err = pairs_of_incarnation(clock, boot_clock, boot_clock->incarnations[l].id, kind, to);
    }
    return err;
}

static mrd_absolute_use
compare(const mrd_align *align, const pairs *p)
{
    mrd_absolute_use use = { .pairs = p->n / 2 };

    for (size_t i = 0; align != NULL && i < p->n; i += 2) {
        mrd_dur_ns by = mrd_abs_disagree(align, p->v + i);

        use.contradicting += by > 0;
        use.worst = by > use.worst ? by : use.worst;
    }
    return use;
}

/* Solves the clock again with the additional inequalities in `p`. If this gives more contradictions
 * than before, marks the readings as contradicting and keeps the earlier table. */
static mrd_err
solve_with(mrd_boot_clock *clock, const char *name, const pairs *p, mrd_absolute_use *use,
           mrd_follow_report *report)
{
    mrd_follow_report with;
    mrd_align *align = NULL;
    mrd_why why = { 0 };
    mrd_err err = mrd_follow_offline(&(mrd_follow_input){ .name = name,
                                                          .clock_id = clock->boot,
                                                          .probes = clock->probes,
                                                          .n_probes = clock->n_probes,
                                                          .ineqs = p->v,
                                                          .n_ineqs = p->n,
                                                          .breaks = clock->breaks,
                                                          .n_breaks = clock->n_breaks },
                                     &align, &with, &why);

    if (err == MRD_NOMEM)
        return err;
    if (err != MRD_OK && clock->align == NULL)
        clock->why = why;
    if (err == MRD_OK && clock->align != NULL &&
        with.bound.contradictions > report->bound.contradictions) {
        use->contradicting = 1;
        mrd_align_free(align);
    } else if (err == MRD_OK) {
        mrd_align_free(clock->align);
        clock->align = align;
        *report = with;
    }
    return MRD_OK;
}

mrd_err
mrd_node_absolute_solve(mrd_node_clock *clock, size_t i, const char *name,
                        mrd_follow_report *report)
{
    mrd_boot_clock *boot_clock = &clock->v[i];
    pairs all[MRD_ABSOLUTES] = { { 0 } }, sum = { 0 };
    mrd_err err = MRD_OK;
    size_t n = 0;

    for (int k = 0; k < MRD_ABSOLUTES && err == MRD_OK; k++) {
        if ((err = find_pairs(clock, boot_clock, (mrd_absolute) k, &all[k])) != MRD_OK)
            break;
        boot_clock->absolute[k] = compare(boot_clock->align, &all[k]);
        if (boot_clock->absolute[k].contradicting == 0)
            n += all[k].n;
    }
    if (err == MRD_OK && n > 0 && (sum.v = malloc(n * sizeof(*sum.v))) == NULL)
        err = MRD_NOMEM;
    for (int k = 0; k < MRD_ABSOLUTES && err == MRD_OK && n > 0; k++) {
        if (boot_clock->absolute[k].contradicting > 0 || all[k].n == 0)
            continue;
        /* Each kind of absolute clock is added to the kinds before it. A kind that contradicts the
         * packets is removed again, and the other kind stays in use. */
        memcpy(sum.v + sum.n, all[k].v, all[k].n * sizeof(*sum.v));
        sum.n += all[k].n;
        err = solve_with(boot_clock, name, &sum, &boot_clock->absolute[k], report);
        if (boot_clock->absolute[k].contradicting > 0)
            sum.n -= all[k].n;
    }
    for (int k = 0; k < MRD_ABSOLUTES; k++)
        free(all[k].v);
    free(sum.v);
    return err;
}

mrd_err
mrd_node_absolute_check(mrd_node_clock *clock, size_t i)
{
    mrd_boot_clock *boot_clock = &clock->v[i];
    mrd_err err = MRD_OK;

    for (int k = 0; k < MRD_ABSOLUTES && err == MRD_OK; k++) {
        pairs p;

        if ((err = find_pairs(clock, boot_clock, (mrd_absolute) k, &p)) == MRD_OK)
            boot_clock->absolute[k] = compare(boot_clock->align, &p);
        free(p.v);
    }
    return err;
}
