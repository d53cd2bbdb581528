#include "cli/view/align_int.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/map.h"
#include "base/obj.h"
#include "base/vec.h"
#include "trace/store/merge.h"

/* Minimum number of matched collectives. Fewer do not prove that two clocks are aligned. */
#define MATCHES_MIN 3
#define OBS_MIN     65536
#define LEFT_NAMED  3 /* maximum number of clocks in a message; the notes name all of them */

/* ---- Units: processes that share a clock ---- */

static mrd_str
base_name(mrd_str path)
{
    for (size_t i = path.len; i > 0; i--) {
        if (path.p[i - 1] == '/')
            return (mrd_str){ path.p + i, path.len - i };
    }
    return path;
}

static bool
has_instance(const mrd_catalog *cat, const mrd_process *process)
{
    return !mrd_str_is(mrd_catalog_text(cat, process->instance_id), "unknown");
}

/* Returns the input file of a process if the process has an identity that was made up for this
 * input. Returns NULL if the input stated the identity, or if an earlier merge made it. */
static const mrd_input *
input_of(const mrd_catalog *cat, const mrd_process *process)
{
    size_t n;
    const mrd_input *inputs = mrd_catalog_inputs(cat, &n);

    return process->scope > 0 && process->scope <= n ? &inputs[process->scope - 1] : NULL;
}

static mrd_sid
unit_name(mrd_catalog *cat, const mrd_process *process)
{
    const mrd_input *in = input_of(cat, process);
    mrd_buf text = { 0 };
    mrd_sid sid;

    if (has_instance(cat, process)) {
        mrd_buf_str(&text, mrd_catalog_text(cat, process->instance_id));
        mrd_buf_text(&text, " clock");
    } else if (in != NULL) {
        mrd_buf_text(&text, "file clock of ");
        mrd_buf_str(&text, base_name(mrd_catalog_text(cat, in->path)));
    } else {
        mrd_buf_fmt(&text, "clock of process %" PRId64, process->process_id);
    }
    sid = mrd_strtab_add(mrd_catalog_strings(cat), mrd_str_of(mrd_buf_cstr(&text)));
    mrd_buf_fini(&text);
    return sid;
}

/* Returns the clock that an earlier merge of an input recorded for this process, or NULL if there
 * is none. */
static const mrd_clock_info *
known_clock(const mrd_catalog *cat, const mrd_process *process)
{
    size_t n;
    const mrd_clock_info *clocks = mrd_catalog_clocks(cat, &n);

    return process->clock > 0 && process->clock < n ? &clocks[process->clock] : NULL;
}

static mrd_map_key
unit_key(const mrd_catalog *cat, const mrd_process *process)
{
    const mrd_clock_info *known = known_clock(cat, process);

    /* an earlier merge aligned these processes, so they share one timeline */
    if (known != NULL && !mrd_str_is(mrd_catalog_text(cat, known->quality), "unaligned"))
        return (mrd_map_key){ 1, 0, 0 };
    if (has_instance(cat, process))
        return (mrd_map_key){ 2, process->instance_id, 0 };
    if (process->scope != 0)
        return (mrd_map_key){ 3, process->scope, 0 };
    return (mrd_map_key){ 4, (uint64_t) process->process_id, 0 };
}

static mrd_err
find_units(mrd_alignment *alignment)
{
    size_t n = mrd_catalog_processes(alignment->cat);
    mrd_map index = { 0 };
    mrd_err err = MRD_OK;

    alignment->unit_of = malloc((n + 1) * sizeof(*alignment->unit_of));
    alignment->units = calloc(n + 1, sizeof(*alignment->units));
    if (alignment->unit_of == NULL || alignment->units == NULL)
        return MRD_NOMEM;
    for (size_t i = 0; i < n && err == MRD_OK; i++) {
        const mrd_process *process = mrd_catalog_borrow_process(alignment->cat, (mrd_proc_id) i);
        mrd_map_key key = unit_key(alignment->cat, process);
        uint32_t u = mrd_map_get(&index, key);

        alignment->unit_of[i] = NO_UNIT;
        if (process->profile != 0)
            continue;
        if (u == MRD_MAP_NONE) {
            u = (uint32_t) alignment->n_units++;
            alignment->units[u] =
                (unit){ .name = unit_name(alignment->cat, process),
                        .first = { INT64_MAX },
                        .last = { INT64_MIN },
                        .described = known_clock(alignment->cat, process) != NULL };
            err = mrd_map_put(&index, key, u);
        }
        alignment->unit_of[i] = u;
    }
    mrd_map_fini(&index);
    return err;
}

uint32_t
mrd_alignment_unit_of(const mrd_alignment *alignment, mrd_track_id track)
{
    return alignment->unit_of[mrd_catalog_borrow_track(alignment->cat, track)->process];
}

/* ---- Reading all streams once ---- */

static void
note_time(presence *at, const mrd_event *ev)
{
    int64_t end = mrd_event_end(ev).ns;

    if (ev->ts.ns == 0)
        return; /* a time of 0 means that the event has none */
    at->first = (mrd_local_ns){ ev->ts.ns < at->first.ns ? ev->ts.ns : at->first.ns };
    at->last = (mrd_local_ns){ ev->ts.ns > at->last.ns ? ev->ts.ns : at->last.ns };
    if (end != INT64_MAX && end > at->longest_at.ns + at->longest) {
        at->longest_at = (mrd_local_ns){ ev->ts.ns };
        at->longest = end - ev->ts.ns;
    }
}

/* Returns true if the event states the size of its group, and the group is as large as the job. */
static bool
is_whole_job(const mrd_catalog *cat, const mrd_track *track, const mrd_cc *cc)
{
    return !cc->world && cc->members > 0 &&
           cc->members == mrd_catalog_borrow_process(cat, track->process)->world_size;
}

static mrd_err
note_collective(mrd_alignment *alignment, const mrd_event *ev, uint32_t u, mrd_cc_kind kind,
                const mrd_cc *cc)
{
    const mrd_track *track = mrd_catalog_borrow_track(alignment->cat, ev->track);
    int64_t part[3] = { track->process, track->lnc_idx, track->device_idx };
    size_t most = alignment->options.memory / (8 * sizeof(sighting));

    if (ev->ts.ns < 0 || mrd_event_end(ev).ns > MRD_COLL_TIME_MAX) {
        alignment->wrong++; /* no clock shows such a time, so the collective is counted as wrong */
        return MRD_OK;
    }
    if (alignment->n_seen >= (most < OBS_MIN ? OBS_MIN : most)) {
        alignment->too_many = true;
        return MRD_OK;
    }
    if (!MRD_VEC_ROOM(alignment->seen, alignment->n_seen, alignment->cap_seen, 1))
        return MRD_NOMEM;
    alignment->seen[alignment->n_seen++] =
        (sighting){ .obs = { .process = u,
                             .part = mrd_hash64(part, sizeof(part), 0),
                             .group = cc->group,
                             .op = cc->op,
                             .size = cc->size,
                             .seq = cc->seq,
                             .lasting = cc->lasting,
                             .begin = { ev->ts.ns },
                             .end = { mrd_event_end(ev).ns } },
                    .members = cc->world ? 0 : cc->members,
                    .named = cc->listed || is_whole_job(alignment->cat, track, cc),
                    .kind = kind };
    return MRD_OK;
}

/* Stores the first gap (lost events) of a unit. Later gaps are not needed, because no collective
 * after the first gap is matched. */
static mrd_err
note_gap(mrd_alignment *alignment, const mrd_event *ev, uint32_t u)
{
    mrd_coll_gap gap = { .process = u, .begin = { ev->ts.ns }, .end = { mrd_event_end(ev).ns } };
    unit *at = &alignment->units[u];

    if (at->has_gap) {
        if (mrd_local_before(gap.begin, alignment->gaps[at->gap].begin))
            alignment->gaps[at->gap] = gap;
        return MRD_OK;
    }
    if (!MRD_VEC_ROOM(alignment->gaps, alignment->n_gaps, alignment->cap_gaps, 1))
        return MRD_NOMEM;
    at->has_gap = true;
    at->gap = alignment->n_gaps;
    alignment->gaps[alignment->n_gaps++] = gap;
    return MRD_OK;
}

static mrd_err
see_event(mrd_alignment *alignment, const mrd_event *ev, uint32_t u)
{
    mrd_cc what;
    mrd_cc_kind kind;

    if (ev->kind == MRD_LOSS)
        return note_gap(alignment, ev, u);
    switch (kind = mrd_collectives_see(alignment->cc, ev, &what)) {
    case MRD_CC_SYNC:
    case MRD_CC_SENDRECV:
    case MRD_CC_BARRIER:
        mrd_collectives_remember(alignment->cc, ev, &what);
        return note_collective(alignment, ev, u, kind, &what);
    case MRD_CC_WRONG:
        alignment->wrong++;
        break;
    case MRD_CC_SAYS_ALL:
        alignment->units[u].says_all++;
        break;
    case MRD_CC_SAYS_SINGLE:
        alignment->units[u].says_single++;
        break;
    case MRD_CC_NO:
    case MRD_CC_LOOSE:
        break;
    }
    return MRD_OK;
}

static mrd_err
see_stream(mrd_alignment *alignment, size_t i, size_t *slot, mrd_why *why)
{
    mrd_source *source = NULL;
    const mrd_event *ev;
    mrd_err err = mrd_stream_open(mrd_store_at(alignment->store, i), &source, why);

    for (size_t u = 0; u < alignment->n_units; u++)
        slot[u] = SIZE_MAX;
    while (err == MRD_OK && source->next(source, &ev, why) == MRD_MORE) {
        uint32_t u = mrd_alignment_unit_of(alignment, ev->track);

        if (u == NO_UNIT)
            continue;
        if (slot[u] == SIZE_MAX) {
            if (!MRD_VEC_ROOM(alignment->at, alignment->n_at, alignment->cap_at, 1)) {
                err = mrd_align_no_memory(why);
                break;
            }
            slot[u] = alignment->n_at;
            alignment->at[alignment->n_at++] =
                (presence){ i, u, { INT64_MAX }, { INT64_MIN }, { INT64_MIN }, 0 };
        }
        note_time(&alignment->at[slot[u]], ev);
        if (see_event(alignment, ev, u) != MRD_OK)
            err = mrd_align_no_memory(why);
    }
    if (source != NULL)
        source->close(source);
    return err;
}

static mrd_err
see_all(mrd_alignment *alignment, mrd_why *why)
{
    size_t *slot = malloc((alignment->n_units + 1) * sizeof(*slot));
    mrd_err err;

    alignment->cc = mrd_collectives_new(alignment->cat, alignment->options.classify);
    err = slot == NULL || alignment->cc == NULL ? mrd_align_no_memory(why) : MRD_OK;

    for (size_t i = 0; i < mrd_store_streams(alignment->store) && err == MRD_OK; i++) {
        if (mrd_stream_profile(mrd_store_at(alignment->store, i)) == 0)
            err = see_stream(alignment, i, slot, why);
    }
    free(slot);
    return err;
}

/* ---- Choosing collectives ---- */

/* Removes collectives if their order proves little. These are operations that may be messages
 * between two ranks, and barriers if there are other collectives. */
static void
keep_believable(mrd_alignment *alignment)
{
    bool running = false;
    size_t n = 0;

    for (size_t i = 0; i < alignment->n_seen; i++)
        running = running || alignment->seen[i].kind == MRD_CC_SYNC;
    for (size_t i = 0; i < alignment->n_seen; i++) {
        const sighting *s = &alignment->seen[i];
        const unit *u = &alignment->units[s->obs.process];

        if (s->kind == MRD_CC_SENDRECV && (u->says_all == 0 || u->says_single > 0))
            continue; /* these may be single messages between two ranks */
        if (s->kind == MRD_CC_BARRIER && running)
            /* all barriers look alike, so other operations show better which collectives belong
             * together */
            continue;
        alignment->seen[n++] = *s;
    }
    alignment->n_seen = n;
}

static int
order_seen(const void *x, const void *y)
{
    const sighting *a = x, *b = y;

    if (a->obs.process != b->obs.process)
        return a->obs.process < b->obs.process ? -1 : 1;
    if (a->obs.group != b->obs.group)
        return a->obs.group < b->obs.group ? -1 : 1;
    if (a->obs.part != b->obs.part)
        return a->obs.part < b->obs.part ? -1 : 1;
    return 0;
}

/* Counts the participating cores of each group. alignment->seen is sorted by order_seen. */
static mrd_err
count_takers(const mrd_alignment *alignment, mrd_map *takers)
{
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < alignment->n_seen && err == MRD_OK; i++) {
        mrd_map_key key = { alignment->seen[i].obs.group, 0, 0 };
        uint32_t n = mrd_map_get(takers, key);

        if (i == 0 || order_seen(&alignment->seen[i - 1], &alignment->seen[i]) != 0)
            err = mrd_map_put(takers, key, n == MRD_MAP_NONE ? 1 : n + 1);
    }
    return err;
}

/*
 * Copies collectives to `obs`, and their number to *ret_n. If more cores take part in a group than
 * it has members, several communicators have the same name, and the group is not used. A collective
 * is doubtful if nothing states the members of its group.
 */
static mrd_err
choose_obs(mrd_alignment *alignment, mrd_coll_obs *obs, size_t *ret_n)
{
    mrd_map takers = { 0 };
    size_t count = 0;
    mrd_err err;

    if (alignment->n_seen > 0)
        qsort(alignment->seen, alignment->n_seen, sizeof(*alignment->seen), order_seen);
    err = count_takers(alignment, &takers);
    for (size_t i = 0; i < alignment->n_seen && err == MRD_OK; i++) {
        const sighting *s = &alignment->seen[i];
        uint32_t here = mrd_map_get(&takers, (mrd_map_key){ s->obs.group, 0, 0 });

        if (s->members > 0 && here > s->members) {
            alignment->mixed++;
            continue;
        }
        obs[count] = s->obs;
        obs[count++].doubtful = !s->named;
    }
    mrd_map_fini(&takers);
    *ret_n = count;
    return err;
}

/* ---- Solving the clocks ---- */

static void
refuse(mrd_alignment *alignment, const char *message)
{
    mrd_buf_reset(&alignment->refused);
    mrd_buf_text(&alignment->refused, message);
    mrd_buf_cstr(&alignment->refused);
}

/* Copies a message of the solver. The solver calls processes by number; the copy has the names of
 * files and nodes instead. */
static void
name_processes(const mrd_alignment *alignment, const char *message, mrd_buf *to)
{
    static const char mark[] = "process ";
    const char *at;
    char *end;

    while ((at = strstr(message, mark)) != NULL) {
        unsigned long u = strtoul(at + sizeof(mark) - 1, &end, 10);

        if (end == at + sizeof(mark) - 1 || u >= alignment->n_units) {
            mrd_buf_add(to, message, (size_t) (at - message) + sizeof(mark) - 1);
            message = at + sizeof(mark) - 1;
            continue;
        }
        mrd_buf_add(to, message, (size_t) (at - message));
        mrd_buf_fmt(to, "the " MRD_STR_FMT,
                    MRD_STR_ARG(mrd_catalog_text(alignment->cat, alignment->units[u].name)));
        message = end;
    }
    mrd_buf_text(to, message);
}

static void
refuse_named(mrd_alignment *alignment, const char *message)
{
    mrd_buf_reset(&alignment->refused);
    name_processes(alignment, message, &alignment->refused);
    mrd_buf_cstr(&alignment->refused);
}

static void
describe_reference(mrd_alignment *alignment, uint32_t u)
{
    mrd_catalog_note(alignment->cat,
                     "the timeline is the " MRD_STR_FMT
                     "; others are aligned to it by the ends of matched collectives. Their bound "
                     "assumes that nobody leaves a collective before all have entered, and clocks "
                     "whose rate changes by at most 0.2 ppm a second and that are not stepped away "
                     "and back within three collectives; it holds from the end of the first "
                     "collective to the end of the last",
                     MRD_STR_ARG(mrd_catalog_text(alignment->cat, alignment->units[u].name)));
}

static void
describe_unit(mrd_alignment *alignment, const mrd_coll_solution *sol, uint32_t u)
{
    const mrd_coll_process *process = &sol->process[u];
    char median[MRD_DUR_TEXT], worst[MRD_DUR_TEXT], segments[80] = "";

    if (u == sol->reference) {
        describe_reference(alignment, u);
        return;
    }
    if (process->segment_count > 1)
        snprintf(segments, sizeof(segments),
                 " in %zu segments, because the rate of its clock changed", process->segment_count);
    mrd_catalog_note(
        alignment->cat,
        MRD_STR_FMT ": %zu collectives matched%s, drift %.1f ppm, ends off by %s in the median, "
                    "%s at most%s",
        MRD_STR_ARG(mrd_catalog_text(alignment->cat, alignment->units[u].name)), process->used,
        segments, process->drift / 1000, mrd_dur_text(process->residual_median, median),
        mrd_dur_text(process->residual_max, worst),
        process->violations > 0
            ? "; collectives contradict its bound, which therefore proves nothing"
            : "");
}

static mrd_clock_info
unit_clock(const mrd_alignment *alignment, uint32_t u)
{
    return (mrd_clock_info){ .name = alignment->units[u].name,
                             .quality = mrd_catalog_intern(alignment->cat, "unaligned"),
                             .method = mrd_catalog_intern(alignment->cat, "none"),
                             .bound_ns = -1,
                             .noise_ns = -1 };
}

static mrd_clock_info
aligned_clock(const mrd_alignment *alignment, const mrd_coll_solution *sol, uint32_t u)
{
    const unit *at = &alignment->units[u];
    const mrd_coll_process *process = &sol->process[u];
    mrd_clock_info info = unit_clock(alignment, u);
    mrd_local_ns middle = { at->first.ns + mrd_local_diff(at->last, at->first) / 2 };
    mrd_align_cursor cursor = { 0 };
    mrd_sess_ns there;

    if (mrd_align_map(at->table, &cursor, middle, &there, NULL))
        info.estimate_ns = there.ns - middle.ns;
    if (!process->unbounded)
        info.bound_ns = process->bound_ns;
    info.noise_ns = process->residual_median;
    info.epochs = (uint32_t) process->segment_count;
    info.violations = process->violations;
    info.quality = mrd_catalog_intern(alignment->cat, process->violations > 0 ? "suspect"
                                                      : u == sol->reference   ? "reference"
                                                                              : "aligned");
    info.method = mrd_catalog_intern(alignment->cat, "collectives");
    return info;
}

/* Notes which units (processes with one clock) are left out, with reasons. Their events are kept,
 * but not aligned. */
static void
describe_left(mrd_alignment *alignment, const mrd_coll_solution *sol, size_t left)
{
    size_t named = 0;

    mrd_buf_reset(&alignment->refused);
    mrd_buf_fmt(&alignment->refused, "%zu of %zu clock%s %s left out", left, alignment->n_units,
                mrd_plural(alignment->n_units), left == 1 ? "is" : "are");
    for (uint32_t u = 0; u < alignment->n_units; u++) {
        const char *reason = sol->process[u].left_out;
        mrd_buf text = { 0 };

        if (alignment->units[u].table != NULL)
            continue;
        mrd_buf_fmt(&text, MRD_STR_FMT " (",
                    MRD_STR_ARG(mrd_catalog_text(alignment->cat, alignment->units[u].name)));
        name_processes(alignment, reason != NULL ? reason : "no matched collectives", &text);
        mrd_buf_text(&text, ")");
        if (named < LEFT_NAMED)
            mrd_buf_fmt(&alignment->refused, "%s%s", named == 0 ? ": " : "; ", mrd_buf_cstr(&text));
        named++;
        mrd_catalog_note(alignment->cat, "left out of the alignment, with all its events: %s",
                         mrd_buf_cstr(&text));
        mrd_buf_fini(&text);
    }
    mrd_buf_text(&alignment->refused, named > LEFT_NAMED ? "; ..." : "");
    mrd_buf_cstr(&alignment->refused);
}

static mrd_err
take_solution(mrd_alignment *alignment, mrd_coll_solution *sol, mrd_clock_info *clocks)
{
    size_t aligned = 0, left = 0;

    for (uint32_t u = 0; u < alignment->n_units; u++) {
        unit *at = &alignment->units[u];

        if (!sol->process[u].aligned || sol->process[u].used < MATCHES_MIN) {
            left++;
            continue;
        }
        at->table = mrd_coll_align(sol, u, mrd_catalog_text(alignment->cat, at->name).p);
        if (at->table == NULL)
            return MRD_NOMEM;
        at->segments = sol->process[u].segments;
        at->n_segments = sol->process[u].segment_count;
        sol->process[u].segments = NULL;
        at->first = (mrd_local_ns){ at->segments[0].from };
        at->last = (mrd_local_ns){ at->segments[at->n_segments - 1].to };
        at->reference = u == sol->reference;
        aligned++;
    }
    if (aligned < 2) {
        refuse(alignment, "too few collectives match: every process needs at least 3");
        return MRD_OK;
    }
    for (uint32_t u = 0; u < alignment->n_units; u++) {
        if (alignment->units[u].table == NULL)
            continue;
        describe_unit(alignment, sol, u);
        clocks[u] = aligned_clock(alignment, sol, u);
        /* the clock changed, so the catalog needs a new description of it */
        alignment->units[u].described = false;
    }
    alignment->mapped = true;
    alignment->breaks = sol->breaks;
    alignment->n_breaks = sol->break_count;
    sol->breaks = NULL;
    sol->break_count = 0;
    if (left > 0)
        describe_left(alignment, sol, left);
    return MRD_OK;
}

static void
drop_tables(mrd_alignment *alignment)
{
    for (size_t u = 0; u < alignment->n_units; u++) {
        mrd_align_free(alignment->units[u].table);
        free(alignment->units[u].segments);
        alignment->units[u].table = NULL;
        alignment->units[u].segments = NULL;
    }
}

static mrd_err
solve(mrd_alignment *alignment, const mrd_coll_obs *obs, size_t n, mrd_clock_info *clocks)
{
    mrd_coll_options options = { .trust_ns = alignment->options.trust,
                                 .leave_out = true,
                                 .text = mrd_collectives_text,
                                 .self = alignment->cc };
    mrd_coll_match *match = NULL;
    mrd_coll_solution sol = { 0 };
    mrd_why why = { 0 };
    mrd_err err = mrd_coll_match_new(obs, n, alignment->n_units, alignment->gaps, alignment->n_gaps,
                                     &options, &match, &why);

    if (err == MRD_OK && (err = mrd_coll_solve(match, &options, &sol, &why)) == MRD_OK) {
        err = take_solution(alignment, &sol, clocks);
        if (err == MRD_OK && !alignment->mapped)
            drop_tables(alignment);
        if (alignment->mapped && mrd_coll_match_left_out(match) > 0)
            mrd_catalog_note(alignment->cat,
                             "collectives without a partner in another file, or behind a gap, are "
                             "left out of the alignment: %zu",
                             mrd_coll_match_left_out(match));
    } else if (err != MRD_NOMEM) {
        refuse_named(alignment, why.text);
        err = MRD_OK;
    }
    mrd_coll_solution_fini(&sol);
    mrd_coll_match_free(match);
    return err;
}

/* If groups had too many participants, stores this as the reason of a refusal. If collectives
 * contradict themselves, adds a note. Both happen even if other units can be aligned. */
static void
note_contradictions(mrd_alignment *alignment)
{
    char text[240];

    if (alignment->mixed > 0) {
        snprintf(text, sizeof(text),
                 "%" PRIu64
                 " collective%s of groups in which more take part than the group says it "
                 "has members: several communicators of one name, none of them is used",
                 alignment->mixed, alignment->mixed == 1 ? " is" : "s are");
        refuse(alignment, text);
    }
    if (alignment->wrong > 0)
        mrd_catalog_note(alignment->cat,
                         "collectives that contradict themselves (their process is not one of the "
                         "group's ranks, these are not as many as its size, or their times are "
                         "none) are left out of the alignment: %" PRIu64,
                         alignment->wrong);
}

static mrd_err
by_collectives(mrd_alignment *alignment, mrd_clock_info *clocks, mrd_why *why)
{
    mrd_coll_obs *obs;
    size_t count = 0;
    mrd_err err = see_all(alignment, why);

    if (err != MRD_OK)
        return err;
    if (alignment->n_units < 2) {
        mrd_catalog_note(alignment->cat, "there is one clock: nothing to align");
        return MRD_OK;
    }
    if (alignment->too_many) {
        refuse(alignment, "more collectives than --memory lets us hold");
        return MRD_OK;
    }
    keep_believable(alignment);
    if ((obs = malloc((alignment->n_seen + 1) * sizeof(*obs))) == NULL)
        return mrd_align_no_memory(why);
    if ((err = choose_obs(alignment, obs, &count)) == MRD_OK) {
        note_contradictions(alignment);
        err = count == 0 && alignment->mixed > 0 ? MRD_OK : solve(alignment, obs, count, clocks);
    }
    free(obs);
    return err == MRD_OK ? MRD_OK : mrd_align_no_memory(why);
}

/* ---- Aligning all units ---- */

static void
label(mrd_alignment *alignment, const mrd_clock_info *clocks)
{
    static const char *const times[] = { "aligned", "utc", "raw" };

    for (size_t u = 0; u < alignment->n_units; u++) {
        if (!alignment->units[u].described)
            alignment->units[u].clock = mrd_catalog_add_clock(alignment->cat, &clocks[u]);
    }
    for (size_t i = 0; i < mrd_catalog_processes(alignment->cat); i++) {
        mrd_process *process = mrd_catalog_borrow_process(alignment->cat, (mrd_proc_id) i);

        if (alignment->unit_of[i] != NO_UNIT && !alignment->units[alignment->unit_of[i]].described)
            process->clock = alignment->units[alignment->unit_of[i]].clock;
    }
    mrd_catalog_set(alignment->cat, "clock.align",
                    alignment->mapped                                       ? "collectives"
                    : alignment->options.method == MRD_ALIGN_BY_COLLECTIVES ? "refused"
                                                                            : "none");
    mrd_catalog_set(alignment->cat, "clock.times",
                    alignment->mapped || alignment->options.times != MRD_TIMES_ALIGNED
                        ? times[alignment->options.times]
                        : "unaligned: each process in its own clock");
    if (alignment->refused.len > 0)
        mrd_catalog_note(alignment->cat, "clocks are not all aligned: %s",
                         mrd_alignment_refused(alignment));
    else if (alignment->options.method == MRD_ALIGN_BY_NONE && alignment->n_units > 1)
        mrd_catalog_note(alignment->cat,
                         "%zu clocks, unaligned: times of different clocks cannot be compared "
                         "(--align collectives may help)",
                         alignment->n_units);
}

static mrd_err
check_epoch(const mrd_alignment *alignment, mrd_why *why)
{
    for (size_t i = 0; i < mrd_store_streams(alignment->store); i++) {
        mrd_stream *stream = mrd_store_at(alignment->store, i);
        mrd_ev_ns first, last;

        if (mrd_stream_profile(stream) == 0 && mrd_stream_range(stream, &first, &last) &&
            first.ns < EPOCH_NS)
            return mrd_why_set(why, MRD_INVALID, 0,
                               "--clock utc: an input has times since a start of its own, not "
                               "since 1970 (first is %" PRId64 " ns)",
                               first.ns);
    }
    return MRD_OK;
}

mrd_err
mrd_alignment_new(const mrd_align_options *options, mrd_catalog *cat, mrd_store *store,
                  mrd_alignment **ret_alignment, mrd_why *why)
{
    mrd_alignment *alignment = calloc(1, sizeof(*alignment));
    mrd_clock_info *clocks = NULL;
    mrd_err err;

    if (alignment == NULL)
        return mrd_align_no_memory(why);
    alignment->options = *options;
    alignment->cat = cat;
    alignment->store = store;
    if (options->times == MRD_TIMES_UTC && (err = check_epoch(alignment, why)) != MRD_OK)
        goto out;
    if ((err = find_units(alignment)) != MRD_OK ||
        (clocks = calloc(alignment->n_units + 1, sizeof(*clocks))) == NULL) {
        err = mrd_align_no_memory(why);
        goto out;
    }
    for (uint32_t u = 0; u < alignment->n_units; u++)
        clocks[u] = unit_clock(alignment, u);
    if (options->method == MRD_ALIGN_BY_COLLECTIVES &&
        (err = by_collectives(alignment, clocks, why)) != MRD_OK)
        goto out;
    label(alignment, clocks);
    if ((err = mrd_catalog_err(cat)) != MRD_OK) {
        err = mrd_align_no_memory(why);
        goto out;
    }
    *ret_alignment = alignment;
    alignment = NULL;
out:
    free(clocks);
    mrd_alignment_free(alignment);
    return err;
}

void
mrd_alignment_free(mrd_alignment *alignment)
{
    if (alignment == NULL)
        return;
    drop_tables(alignment);
    mrd_collectives_free(alignment->cc);
    free(alignment->units);
    free(alignment->unit_of);
    free(alignment->at);
    free(alignment->seen);
    free(alignment->gaps);
    free(alignment->breaks);
    mrd_buf_fini(&alignment->refused);
    free(alignment);
}

const char *
mrd_alignment_refused(const mrd_alignment *alignment)
{
    return alignment->refused.len == 0 ? NULL : (const char *) alignment->refused.p;
}
