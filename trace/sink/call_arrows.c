#include "trace/sink/call_arrows.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/num.h"
#include "base/vec.h"

/* number of events read from the source at once; each may become two events */
#define ROOM      32u
#define FLOWS_MAX 255u
/* Maximum length of a device profile's name, in bytes. Executions do not get a longer name as an
 * argument. */
#define NAME_LONG 256u
#define SHOWN_MAX 64u /* maximum number of pending executions with a device profile */
/* Size of the ring buffer of profile names. Events of one batch refer to names that were stored up
 * to ROOM names earlier, so these must not be overwritten. */
#define NAMES (SHOWN_MAX + ROOM)

#define KIND_CALL UINT64_C(0x63616c6c)
#define KIND_EXEC UINT64_C(0x65786563)
#define KIND_OP   UINT64_C(0x6f706572)

typedef enum { NONE, OPERATION, HOOK, RUNTIME } role;

typedef struct {
    mrd_ev_ns start, end;
    /* id of the flow arrow that begins at this call; 0 if there is none, or if its end was already
     * found */
    uint64_t id;
    /* number in `names` (see name_of) of the name of the call's device profile, from 1; 0 if the
     * call has no profile */
    uint64_t ntff;
} call;

typedef struct {
    mrd_arg arg;
    char text[NAME_LONG]; /* the characters that `arg` points to if its type is TEXT */
} profile_name;

/* An importer's flow arrow from a kbl_exec_pre to its execution. The call has a device profile, so
 * an execution at the end of this arrow gets the profile's name as an argument. The execution must
 * begin by `until`, the end of the call. */
typedef struct {
    uint64_t flow;
    mrd_ev_ns until;
    /* number of the profile's name; 0 if two calls use the arrow, so that it is uncertain which
     * one */
    uint64_t ntff;
} shown;

typedef struct {
    mrd_track_id track;
    bool own_clock; /* the operation's times come from another clock than the hook's */
    mrd_ev_ns end;
} operation;

typedef struct {
    call hook;
    uint32_t n_open;
    operation open[MRD_CALL_ARROW_OPEN];
} thread;

typedef struct {
    uint8_t role;
    bool own_clock;
    uint32_t thread;
    call exec; /* the latest nrt_execute of the runtime on this track */
} track;

typedef struct {
    mrd_source base;
    mrd_source *from;
    mrd_sid execute, repeat, pre, point, running, ntff;
    uint64_t *points;
    track *tracks;
    size_t n_tracks;
    thread *threads;
    /* read: events from the source. made: copies with changes, and additional events. out: the
     * events to return next. */
    const mrd_event *read[ROOM];
    mrd_event made[2 * ROOM];
    mrd_flow flows[ROOM][FLOWS_MAX];
    size_t n_made, n_flows;
    /* ring buffer of the latest executions that wait for a profile's name; the newest entry is at
     * (n_shown - 1) % SHOWN_MAX */
    shown shown[SHOWN_MAX];
    size_t n_shown;
    profile_name names[NAMES];
    uint64_t n_names;
    mrd_arg *args[ROOM]; /* argument lists of the executions that got a profile's name */
    size_t cap_args[ROOM], n_args;
    const mrd_event *out[2 * ROOM];
    size_t n_out, at_out;
} arrows;

/* ---- Arrows ---------------------------------------------------------------------------------- */

/* Returns a copy of the event with one more arrow point. An event with FLOWS_MAX points is returned
 * unchanged. */
static const mrd_event *
with_flow(arrows *a, const mrd_event *ev, mrd_flow flow)
{
    mrd_event *to;
    mrd_flow *flows;

    if (ev->flow_count == FLOWS_MAX)
        return ev;
    /* this event was already copied, so the copy can be changed */
    if (a->n_made > 0 && ev == &a->made[a->n_made - 1]) {
        to = &a->made[a->n_made - 1];
        flows = a->flows[a->n_flows - 1];
    } else {
        to = &a->made[a->n_made++];
        flows = a->flows[a->n_flows++];
        *to = *ev;
        if (ev->flow_count > 0)
            memcpy(flows, ev->flows, ev->flow_count * sizeof(*flows));
        to->flows = flows;
    }
    flows[to->flow_count++] = flow;
    return to;
}

static void
give(arrows *a, const mrd_event *ev)
{
    a->out[a->n_out++] = ev;
}

/* ---- Device profiles ------------------------------------------------------------------------- */

static uint64_t
keep_name(arrows *a, const mrd_arg *arg)
{
    profile_name *to = &a->names[a->n_names % NAMES];

    if (arg == NULL || (arg->type != MRD_ARG_STR && arg->type != MRD_ARG_TEXT) ||
        (arg->type == MRD_ARG_TEXT && (arg->len == 0 || arg->len > sizeof(to->text))))
        return 0;
    to->arg = *arg;
    if (arg->type == MRD_ARG_TEXT) {
        memcpy(to->text, arg->v.text, arg->len);
        to->arg.v.text = to->text;
    }
    return ++a->n_names;
}

/* Returns the argument with the name of a device profile. `number` is call.ntff. Returns NULL for
 * number 0, and if a newer name has overwritten the name. */
static const mrd_arg *
name_of(const arrows *a, uint64_t number)
{
    return number == 0 || a->n_names - number >= SHOWN_MAX ? NULL
                                                           : &a->names[(number - 1) % NAMES].arg;
}

static shown *
shown_by(arrows *a, uint64_t flow, mrd_ev_ns at)
{
    for (size_t i = 0; i < SHOWN_MAX && i < a->n_shown; i++) {
        shown *s = &a->shown[(a->n_shown - 1 - i) % SHOWN_MAX];

        if (s->flow == flow && !mrd_ev_after(at, s->until))
            return s;
    }
    return NULL;
}

/* Stores the flow arrows that begin at this kbl_exec_pre if its call has a device profile. The
 * executions at their ends then get the profile's name. */
static void
remember_shown(arrows *a, const mrd_event *pre, const call *of)
{
    for (unsigned i = 0; i < pre->flow_count; i++) {
        shown *s;

        if (pre->flows[i].dir != MRD_FLOW_START)
            continue;
        if ((s = shown_by(a, pre->flows[i].id, pre->ts)) != NULL) {
            s->ntff = 0;
        } else if (of->ntff != 0) {
            a->shown[a->n_shown++ % SHOWN_MAX] = (shown){ pre->flows[i].id, of->end, of->ntff };
        }
    }
}

/* Returns a copy of the execution with the name of its device profile as an argument. Returns the
 * execution itself if it has no profile or memory is out. */
static const mrd_event *
with_profile(arrows *a, const mrd_event *ev)
{
    const shown *by = NULL;
    const mrd_arg *name;
    mrd_event *to;
    size_t at = a->n_args;

    for (unsigned i = 0; i < ev->flow_count && by == NULL; i++)
        if (ev->flows[i].dir == MRD_FLOW_END)
            by = shown_by(a, ev->flows[i].id, ev->ts);
    name = by == NULL ? NULL : name_of(a, by->ntff);
    if (name == NULL || mrd_event_arg(ev, a->ntff) != NULL ||
        !MRD_VEC_ROOM(a->args[at], 0u, a->cap_args[at], (size_t) ev->arg_count + 1))
        return ev;
    to = &a->made[a->n_made++];
    *to = *ev;
    if (ev->arg_count > 0)
        memcpy(a->args[at], ev->args, ev->arg_count * sizeof(*ev->args));
    a->args[at][to->arg_count++] = *name;
    to->args = a->args[at];
    a->n_args++;
    return to;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

/* Returns true if the event already begins or ends an arrow (`dir`). This happens when the input is
 * a file that Meridian wrote. */
static bool
has_flow(const mrd_event *ev, mrd_flow_dir dir)
{
    for (unsigned i = 0; i < ev->flow_count; i++)
        if (ev->flows[i].dir == dir)
            return true;
    return false;
}

static bool
is_long(const mrd_event *ev)
{
    return ev->dur_ns > 2 * MRD_CALL_ARROW_SLACK;
}

/* Removes the operations of a thread that have ended before `now`. They need not be on top of the
 * stack, because operations may come from several clocks. */
static void
forget_ended(thread *t, mrd_ev_ns now)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < t->n_open; i++)
        if (mrd_ev_after(t->open[i].end, now))
            t->open[kept++] = t->open[i];
    t->n_open = kept;
}

static void
see_operation(const arrows *a, const mrd_event *ev)
{
    thread *t = &a->threads[a->tracks[ev->track].thread];

    while (t->n_open > 0 && !mrd_ev_after(t->open[t->n_open - 1].end, ev->ts))
        t->n_open--;
    if (t->n_open == MRD_CALL_ARROW_OPEN)
        forget_ended(t, ev->ts);
    if (t->n_open < MRD_CALL_ARROW_OPEN)
        t->open[t->n_open++] =
            (operation){ ev->track, a->tracks[ev->track].own_clock, mrd_event_end(ev) };
}

/* Begins a flow arrow at the innermost framework operation that contains the call, and returns its
 * id. Returns 0 if no operation contains the call. */
static uint64_t
from_operation(arrows *a, const thread *t, const mrd_event *of)
{
    mrd_event *point;

    for (uint32_t i = t->n_open; i > 0; i--) {
        const operation *o = &t->open[i - 1];

        if (mrd_ev_after(mrd_event_end(of), o->end) || (o->own_clock && !is_long(of)))
            continue;
        point = &a->made[a->n_made++];
        *point =
            (mrd_event){ .ts = of->ts,
                         .seq = of->seq,
                         .id = mrd_flow_id((uint64_t) of->track + 1, KIND_OP, (uint64_t) of->ts.ns),
                         .track = o->track,
                         .name = a->point,
                         .bound_ns = of->bound_ns,
                         .kind = MRD_FLOW,
                         .flags = of->flags & MRD_EV_SIMULATED,
                         .flow_dir = MRD_FLOW_START };
        give(a, point);
        ++*a->points;
        return point->id;
    }
    return 0;
}

static void
see_call(arrows *a, const mrd_event *ev)
{
    thread *t = &a->threads[a->tracks[ev->track].thread];
    uint64_t from;

    t->hook.id = 0;
    if (has_flow(ev, MRD_FLOW_START)) {
        give(a, ev);
        return;
    }
    from = from_operation(a, t, ev);
    t->hook = (call){ .start = ev->ts,
                      .end = mrd_event_end(ev),
                      .id = mrd_flow_id((uint64_t) ev->track + 1, KIND_CALL, (uint64_t) ev->ts.ns),
                      .ntff = keep_name(a, mrd_event_arg(ev, a->ntff)) };
    ev = with_flow(a, ev, (mrd_flow){ .id = t->hook.id, .dir = MRD_FLOW_START });
    if (from != 0)
        ev = with_flow(a, ev, (mrd_flow){ .id = from, .dir = MRD_FLOW_END });
    give(a, ev);
}

static void
see_runtime(arrows *a, const mrd_event *ev)
{
    track *of = &a->tracks[ev->track];
    call *hook = &a->threads[of->thread].hook;

    if (ev->name == a->pre) {
        if (of->exec.id != 0 && !has_flow(ev, MRD_FLOW_END) &&
            !mrd_ev_after(of->exec.start, ev->ts) &&
            !mrd_ev_after(mrd_event_end(ev), of->exec.end)) {
            remember_shown(a, ev, &of->exec);
            ev = with_flow(a, ev, (mrd_flow){ .id = of->exec.id, .dir = MRD_FLOW_END });
            of->exec.id = 0;
        }
        give(a, ev);
        return;
    }
    of->exec.id = 0;
    if (has_flow(ev, MRD_FLOW_START)) {
        give(a, ev);
        return;
    }
    of->exec =
        (call){ .start = ev->ts,
                .end = mrd_event_end(ev),
                .id = mrd_flow_id((uint64_t) ev->track + 1, KIND_EXEC, (uint64_t) ev->ts.ns) };
    if (hook->id != 0 && is_long(ev) && !mrd_ev_after(hook->start, ev->ts) &&
        mrd_event_end(ev).ns <= mrd_sat_add(hook->end.ns, MRD_CALL_ARROW_SLACK)) {
        ev = with_flow(a, ev, (mrd_flow){ .id = hook->id, .dir = MRD_FLOW_END });
        hook->id = 0;
        of->exec.ntff = hook->ntff;
    }
    give(a, with_flow(a, ev, (mrd_flow){ .id = of->exec.id, .dir = MRD_FLOW_START }));
}

static void
see(arrows *a, const mrd_event *ev)
{
    role r =
        ev->kind == MRD_SPAN && ev->track < a->n_tracks ? (role) a->tracks[ev->track].role : NONE;

    if (r != NONE && (ev->dur_ns < 0 || (ev->flags & MRD_EV_NO_START) != 0))
        r = NONE;
    if (r == HOOK && (ev->name == a->execute || ev->name == a->repeat)) {
        see_call(a, ev);
        return;
    }
    if (r == RUNTIME && (ev->name == a->execute || ev->name == a->pre)) {
        see_runtime(a, ev);
        return;
    }
    if (r == OPERATION)
        see_operation(a, ev);
    give(a, a->n_shown > 0 && ev->kind == MRD_SPAN && ev->name == a->running &&
                    ev->name != MRD_SID_EMPTY
                ? with_profile(a, ev)
                : ev);
}

/* ---- The source ------------------------------------------------------------------------------ */

static mrd_step
arrows_fill(arrows *a, mrd_why *why)
{
    mrd_step step;
    size_t n = 1;

    a->n_out = a->at_out = a->n_made = a->n_flows = a->n_args = 0;
    if (a->from->many != NULL)
        step = a->from->many(a->from, a->read, ROOM, &n, why);
    else
        step = a->from->next(a->from, &a->read[0], why);
    for (size_t i = 0; step == MRD_MORE && i < n; i++)
        see(a, a->read[i]);
    return step;
}

static mrd_step
arrows_many(mrd_source *self, const mrd_event **ret_events, size_t room, size_t *ret_n,
            mrd_why *why)
{
    arrows *a = (arrows *) (void *) self;
    mrd_step step;

    if (a->at_out == a->n_out && (step = arrows_fill(a, why)) != MRD_MORE)
        return step;
    *ret_n = a->n_out - a->at_out < room ? a->n_out - a->at_out : room;
    memcpy(ret_events, &a->out[a->at_out], *ret_n * sizeof(*ret_events));
    a->at_out += *ret_n;
    return MRD_MORE;
}

static mrd_step
arrows_next(mrd_source *self, const mrd_event **ret_event, mrd_why *why)
{
    size_t n;

    return arrows_many(self, ret_event, 1, &n, why);
}

static void
arrows_close(mrd_source *self)
{
    arrows *a = (arrows *) (void *) self;

    a->from->close(a->from);
    for (size_t i = 0; i < ROOM; i++)
        free(a->args[i]);
    free(a->tracks);
    free(a->threads);
    free(a);
}

static role
role_of(const mrd_track *t)
{
    if (t->kind != MRD_TRACK_SPANS || t->thread_id == MRD_NONE)
        return NONE;
    return t->source == MRD_SRC_API                                            ? HOOK
           : t->source == MRD_SRC_RUNTIME                                      ? RUNTIME
           : t->source == MRD_SRC_ANNOTATION || t->source == MRD_SRC_FRAMEWORK ? OPERATION
                                                                               : NONE;
}

/* Numbers the threads, and assigns a role to each track. *ret_calls is true if at least one arrow
 * is possible. */
static mrd_err
tracks_make(arrows *a, const mrd_catalog *cat, uint32_t profile, bool *ret_calls)
{
    mrd_map by_thread = { 0 };
    uint32_t count = 0;
    mrd_err err = MRD_OK;

    *ret_calls = false;
    for (mrd_track_id id = 0; id < a->n_tracks && err == MRD_OK; id++) {
        const mrd_track *t = mrd_catalog_borrow_track(cat, id);
        mrd_map_key key = { t->process, (uint64_t) t->thread_id, 0 };
        uint32_t at;

        if (mrd_catalog_profile_of(cat, id) != profile || role_of(t) == NONE)
            continue;
        a->tracks[id].role = (uint8_t) role_of(t);
        a->tracks[id].own_clock = t->source == MRD_SRC_FRAMEWORK;
        *ret_calls = *ret_calls || t->source == MRD_SRC_API || t->source == MRD_SRC_RUNTIME;
        if ((at = mrd_map_get(&by_thread, key)) == MRD_MAP_NONE)
            err = mrd_map_put(&by_thread, key, at = count++);
        a->tracks[id].thread = at;
    }
    mrd_map_fini(&by_thread);
    if (err == MRD_OK && *ret_calls && (a->threads = calloc(count, sizeof(*a->threads))) == NULL)
        err = MRD_NOMEM;
    return err;
}

mrd_err
mrd_call_arrows_open(mrd_source *from, const mrd_catalog *cat, uint32_t profile, uint64_t *points,
                     mrd_source **ret_source, mrd_why *why)
{
    arrows *a = calloc(1, sizeof(*a));
    bool calls = false;
    mrd_err err = a == NULL ? MRD_NOMEM : MRD_OK;

    if (err == MRD_OK) {
        mrd_strtab *strings = mrd_catalog_strings(cat);

        a->base = (mrd_source){
            .next = arrows_next, .close = arrows_close, .many = arrows_many, .key = from->key
        };
        a->from = from;
        a->points = points;
        a->execute = mrd_strtab_find(strings, MRD_STR("nrt_execute"));
        a->repeat = mrd_strtab_find(strings, MRD_STR("nrt_execute_repeat"));
        a->pre = mrd_strtab_find(strings, MRD_STR("kbl_exec_pre"));
        a->running = mrd_strtab_find(strings, MRD_STR("nc_exec_running"));
        a->ntff = mrd_strtab_find(strings, MRD_STR("ntff"));
        a->point = mrd_strtab_addz(strings, "calls nrt_execute");
        a->n_tracks = mrd_catalog_tracks(cat);
        a->tracks = calloc(a->n_tracks + 1, sizeof(*a->tracks));
        err = a->tracks == NULL ? MRD_NOMEM : tracks_make(a, cat, profile, &calls);
    }
    if (err == MRD_OK && calls && a->execute != MRD_SID_EMPTY) {
        *ret_source = &a->base;
        return MRD_OK;
    }
    if (a != NULL) {
        free(a->tracks);
        free(a->threads);
        free(a);
    }
    if (err == MRD_OK) {
        *ret_source = from;
        return MRD_OK;
    }
    from->close(from);
    return mrd_why_set(why, err, 0, "arrows of calls");
}
