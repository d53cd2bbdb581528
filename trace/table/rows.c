#include "trace/table/rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/num.h"
#include "base/obj.h"
#include "base/vec.h"
#include "trace/json/catalog_json.h"
#include "trace/json/json_names.h"
#include "trace/table/rows_int.h"

static const char *const words[WORDS] = {
    [WORD_SPAN] = "span",
    [WORD_INSTANT] = "instant",
    [WORD_COMPUTE] = "compute",
    [WORD_COLLECTIVE] = "collective",
    [WORD_BARRIER] = "barrier",
    [WORD_COPY] = "copy",
    [WORD_HOST] = "host",
    [WORD_STEP] = "step",
    [WORD_START] = "start",
    [WORD_FLOW_STEP] = "step",
    [WORD_END] = "end",
    [WORD_SPANS] = "spans",
    [WORD_COUNTER] = "counter",
    [WORD_OK] = "ok",
    [WORD_INCOMPLETE] = "incomplete",
    [WORD_FAILED] = "failed",
    [WORD_SKIPPED] = "skipped",
    [WORD_NONE] = "none",
    [WORD_NOTHING] = "nothing",
    [WORD_STILL] = "stands still",
    [WORD_ABSENT] = "absent",
    [WORD_MORE_WORK] = "more work",
    [WORD_SOMETIMES] = "sometimes",
    [WORD_UNPROVEN] = "unproven",
    [WORD_LATE] = "late",
};

static const mrd_word on_words[MRD_ONS] = {
    [MRD_ON_COMPUTE] = WORD_COMPUTE,
    [MRD_ON_COLLECTIVE] = WORD_COLLECTIVE,
    [MRD_ON_BARRIER] = WORD_BARRIER,
    [MRD_ON_COPY] = WORD_COPY,
    /* for events outside of spans, as the next */
    [MRD_ON_HOST] = WORD_HOST,
    [MRD_ON_GAP] = WORD_HOST,
    [MRD_ON_PAUSED] = WORD_HOST,
};

mrd_sid
mrd_rows_own(mrd_rows *r, const char *text)
{
    mrd_sid known;

    if (*text == '\0')
        return MRD_SID_EMPTY;
    if ((known = mrd_strtab_find(mrd_catalog_strings(r->cat), mrd_str_of(text))) != MRD_SID_EMPTY)
        return known;
    for (size_t i = WORDS; i < r->own.n; i++) {
        if (strcmp(r->own.v[i], text) == 0)
            return (mrd_sid) (r->n_catalog + i);
    }
    if (mrd_strlist_add(&r->own, mrd_str_of(text)) != MRD_OK) {
        r->err = MRD_NOMEM;
        return MRD_SID_EMPTY;
    }
    return (mrd_sid) (r->n_catalog + r->own.n - 1);
}

mrd_str
mrd_rows_text(const mrd_rows *r, mrd_sid sid)
{
    if (sid < r->n_catalog)
        return mrd_catalog_text(r->cat, sid);
    return sid - r->n_catalog < r->own.n ? mrd_str_of(r->own.v[sid - r->n_catalog]) : MRD_STR("");
}

size_t
mrd_rows_sids(const mrd_rows *r)
{
    return r->n_catalog + r->own.n;
}

const mrd_slot *
mrd_rows_track(const mrd_rows *r, mrd_track_id track)
{
    return r->tracks + (size_t) track * TRACK_FIELDS;
}

size_t
mrd_rows_tracks(const mrd_rows *r)
{
    return r->n_tracks;
}

const char *
mrd_rows_session(const mrd_rows *r)
{
    return r->session;
}

const char *
mrd_rows_date(const mrd_rows *r)
{
    return r->date;
}

mrd_err
mrd_rows_give(mrd_rows *r, mrd_rows_kind kind)
{
    return r->table_of[kind] == NO_TABLE ? MRD_OK
                                         : r->give(r->self, (size_t) r->table_of[kind], r->slots);
}

void
mrd_rows_clear(mrd_slot slots[F_COUNT])
{
    memset(slots, 0, F_COUNT * sizeof(*slots));
    slots[F_NONE].i = -1;
    for (size_t i = F_ARG_FIRST; i <= F_ARG_LAST; i++)
        slots[i].i = -1;
}

/* ---- Tracks and processes ---- */

/* Sets the fields of a process, for tables that are not by track. */
void
mrd_rows_identity(mrd_rows *r, mrd_proc_id process)
{
    const mrd_process *p = mrd_catalog_borrow_process(r->cat, process);

    r->slots[F_PROC].i = process;
    r->slots[F_INSTANCE].sid = p->instance_id;
    r->slots[F_PID].i = p->process_id;
    r->slots[F_RANK].i = p->rank;
    r->slots[F_CLOCK].i = p->clock;
    r->slots[F_NODE].i = r->node[process];
    r->slots[F_WORKER_GID].i = p->worker_gid;
    r->slots[F_JOB].sid = p->job;
    r->slots[F_SESSION].sid = mrd_rows_own(r, r->session);
}

/* Returns the worker of a track, -1 if it has none. */
static int64_t
worker_of(const mrd_rows *r, mrd_track_id id)
{
    uint32_t worker = mrd_workers_of(r->workers, id);

    return worker == MRD_NO_WORKER ? -1 : (int64_t) worker;
}

static void
track_fields(mrd_rows *r, mrd_track_id id)
{
    const mrd_track *t = mrd_catalog_borrow_track(r->cat, id);
    mrd_slot *to = r->slots;
    mrd_str cpu = { 0 };
    char name[64];

    mrd_rows_identity(r, t->process);
    to[F_TRACK].i = id;
    to[F_SOURCE].sid = mrd_rows_own(r, mrd_source_text(t->source));
    to[F_VENDOR_SOURCE].sid = mrd_rows_own(r, mrd_source_vendor_text(t->source));
    to[F_TRACK_NAME].sid = t->name;
    to[F_UNIT].sid = t->unit_name != 0          ? t->unit_name
                     : t->unit == MRD_UNIT_NONE ? MRD_SID_EMPTY
                                                : mrd_rows_own(r, mrd_unit_text(t->unit));
    if (t->worker_gid != MRD_NONE)
        to[F_WORKER_GID].i = t->worker_gid;
    to[F_WORKER].i = worker_of(r, id);
    to[F_LNC].i = t->lnc_idx;
    to[F_PCORE].i = t->pcore_idx;
    to[F_DEVICE].i = t->device_idx;
    to[F_TID].i = t->thread_id;
    to[F_CPU_ID].sid = MRD_SID_EMPTY;
    if (t->kind == MRD_TRACK_COUNTER && t->source == MRD_SRC_HOST &&
        mrd_json_cpu_id(mrd_catalog_text(r->cat, t->name), &cpu) && cpu.len < sizeof(name)) {
        memcpy(name, cpu.p, cpu.len);
        name[cpu.len] = '\0';
        to[F_CPU_ID].sid = mrd_rows_own(r, name);
    }
    memcpy(r->tracks + (size_t) id * TRACK_FIELDS, to + F_TRACK, TRACK_FIELDS * sizeof(*to));
}

/* Returns true if a process's clock is suspect or contradicted now. Sets *ret_bounded if it has a
 * bound; times of its node that never crossed a clock are then exact. */
static bool
is_suspect(const mrd_rows *r, mrd_proc_id id, bool *ret_bounded)
{
    const mrd_process *p = mrd_catalog_borrow_process(r->cat, id);
    size_t n;
    const mrd_clock_info *clocks = mrd_catalog_clocks(r->cat, &n);
    bool suspect = false;

    *ret_bounded = false;
    for (size_t i = 1; i < n; i++) {
        if (p->clock != i && (clocks[i].node == 0 || clocks[i].node != p->instance_id))
            continue;
        *ret_bounded = *ret_bounded || clocks[i].bound_ns >= 0;
        suspect = suspect || clocks[i].violations > 0 ||
                  mrd_str_is(mrd_catalog_text(r->cat, clocks[i].quality), "suspect");
    }
    return suspect;
}

/* Finds the processes with which times may be compared without bounds of clocks
 * (trace/analysis/judge/proof.h). */
static void
judge_process(mrd_rows *r, mrd_proc_id id)
{
    const mrd_process *p = mrd_catalog_borrow_process(r->cat, id), *q;
    bool known = !mrd_str_is(mrd_catalog_text(r->cat, p->instance_id), "unknown"),
         one = r->env->options->same_clock;

    r->suspect[id] = is_suspect(r, id, &r->bounded[id]);
    r->node[id] = id;
    for (mrd_proc_id i = 0; (known || one) && i < id; i++) {
        q = mrd_catalog_borrow_process(r->cat, i);
        if (q->instance_id == p->instance_id && (one || q->scope == p->scope)) {
            r->node[id] = r->node[i];
            break;
        }
    }
}

bool
mrd_rows_contradicted(const mrd_rows *r)
{
    bool bounded;

    for (mrd_proc_id i = 0; i < mrd_catalog_processes(r->cat); i++) {
        if (!r->suspect[i] && is_suspect(r, i, &bounded))
            return true;
    }
    return false;
}

/* ---- Arguments ---- */

/* Returns the column of an argument, MRD_ARG_COLUMNS if it has none. */
static size_t
arg_column(const mrd_rows *r, const mrd_arg *arg)
{
    if (arg->type != MRD_ARG_INT || arg->v.i < 0 || arg->key >= r->n_catalog)
        return MRD_ARG_COLUMNS;
    return r->arg_column[arg->key];
}

static void
put_args(mrd_rows *r, const mrd_event *ev)
{
    uint64_t set;

    mrd_buf_reset(&r->text);
    /* columns of the previous event */
    for (set = (uint64_t) r->slots[F_ARG_SET].i; set != 0; set &= set - 1)
        r->slots[F_ARG_FIRST + __builtin_ctzll(set)].i = -1;
    for (uint32_t i = 0; i < ev->arg_count; i++) {
        size_t column = arg_column(r, &ev->args[i]);

        if (column < MRD_ARG_COLUMNS && (set >> column & 1) == 0) {
            r->slots[F_ARG_FIRST + column].i = ev->args[i].v.i;
            set |= UINT64_C(1) << column;
        } else {
            mrd_rows_arg(r, &ev->args[i]);
        }
    }
    r->slots[F_ARG_SET].i = (int64_t) set;
    if (r->text.len > 0)
        mrd_buf_byte(&r->text, '}');
    if (r->text.err != MRD_OK)
        r->err = r->text.err;
    r->slots[F_ARGS].text.p = (const char *) r->text.p;
    r->slots[F_ARGS].text.len = r->text.len;
}

/* ---- Events ---- */

static int64_t
bound_of(uint32_t bound_ns)
{
    return bound_ns == MRD_BOUND_UNKNOWN ? -1 : (int64_t) bound_ns;
}

static mrd_err
give_flows(mrd_rows *r, const mrd_event *ev, const mrd_flow *flows, size_t n)
{
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < n && err == MRD_OK; i++) {
        r->slots[F_FLOW_ID].i = (int64_t) flows[i].id;
        r->slots[F_FLOW_DIR].sid = rows_word(r, flows[i].dir == MRD_FLOW_START  ? WORD_START
                                                : flows[i].dir == MRD_FLOW_STEP ? WORD_FLOW_STEP
                                                                                : WORD_END);
        r->slots[F_TRACK].i = ev->track;
        err = mrd_rows_give(r, MRD_ROWS_FLOWS);
    }
    return err;
}

static void
widen(worker_seen *seen, const mrd_event *ev)
{
    uint64_t length = (uint64_t) mrd_event_end(ev).ns - (uint64_t) ev->ts.ns;

    seen->first = mrd_ev_before(ev->ts, seen->first) ? ev->ts : seen->first;
    seen->last = mrd_ev_after(mrd_event_end(ev), seen->last) ? mrd_event_end(ev) : seen->last;
    seen->longest_ns = length > seen->longest_ns ? length : seen->longest_ns;
}

/* Returns the number at the end of a step's name, -1 if there is none. */
static int64_t
step_number(mrd_str name)
{
    size_t at = name.len;
    uint64_t number;

    while (at > 0 && name.p[at - 1] >= '0' && name.p[at - 1] <= '9')
        at--;
    if (!mrd_num_digits((mrd_str){ name.p + at, name.len - at }, &number) || number > INT64_MAX)
        return -1;
    return (int64_t) number;
}

/* Only steps of trace/analysis/judge/steps.h count. */
static mrd_err
give_step(mrd_rows *r, const mrd_event *ev)
{
    mrd_proc_id process = mrd_catalog_borrow_track(r->cat, ev->track)->process;
    bool counts = ev->dur_ns > 0 && !mrd_ev_before(ev->ts, r->step_end[process]);

    if (counts)
        r->step_end[process] = mrd_event_end(ev);
    mrd_rows_identity(r, process);
    r->slots[F_STEP_COUNTS].i = counts;
    r->slots[F_STEP].i = step_number(mrd_catalog_text(r->cat, ev->name));
    return mrd_rows_give(r, MRD_ROWS_STEPS);
}

static mrd_err
add_event(mrd_rows *r, const mrd_event *ev)
{
    mrd_flow point = { .id = ev->id, .dir = (mrd_flow_dir) ev->flow_dir };
    bool is_point = ev->kind == MRD_FLOW;
    mrd_work work = { .kind = MRD_CC_NO };
    mrd_work_kind kind = is_point ? MRD_WORK_NONE : mrd_workers_see(r->workers, ev, &work);
    mrd_err err;

    r->slots[F_ROW].i = (int64_t) r->events++;
    r->slots[F_DUR].i = ev->kind != MRD_SPAN ? 0 : ev->dur_ns < 0 ? -1 : ev->dur_ns;
    r->slots[F_END].i = ev->kind != MRD_SPAN || ev->dur_ns < 0 ? ev->ts.ns : mrd_event_end(ev).ns;
    r->slots[F_KIND].sid = rows_word(r, ev->kind == MRD_SPAN ? WORD_SPAN : WORD_INSTANT);
    r->slots[F_NAME].sid = ev->name;
    r->slots[F_CATEGORY].sid = ev->category;
    r->slots[F_ACTIVITY].sid = kind == MRD_WORK_WORKER ? rows_word(r, on_words[work.on])
                               : kind == MRD_WORK_STEP ? rows_word(r, WORD_STEP)
                                                       : MRD_SID_EMPTY;
    if (kind == MRD_WORK_WORKER && work.device)
        widen(&r->seen[work.worker], ev);
    r->slots[F_ID].i = is_point ? 0 : (int64_t) ev->id;
    r->slots[F_NO_START].i = (ev->flags & MRD_EV_NO_START) != 0;
    r->slots[F_SIMULATED].i = (ev->flags & MRD_EV_SIMULATED) != 0;
    r->slots[F_FLOWS].flows.v = is_point ? &point : ev->flows;
    r->slots[F_FLOWS].flows.n = is_point ? 1 : ev->flow_count;
    put_args(r, ev);
    if (!r->dialect->promote && r->slots[F_DUR].i < 0)
        /* the vendor has no word for it, so it is only in the extra attributes */
        r->slots[F_DUR].i = 0;
    if ((err = mrd_rows_give(r, MRD_ROWS_EVENTS)) == MRD_OK)
        err = give_flows(r, ev, r->slots[F_FLOWS].flows.v, r->slots[F_FLOWS].flows.n);
    if (err == MRD_OK && kind == MRD_WORK_STEP)
        err = give_step(r, ev);
    if (err == MRD_OK && kind == MRD_WORK_WORKER && work.kind != MRD_CC_NO)
        err = mrd_gather_add(r->gather, work.kind, &work.what, ev, work.worker, 0);
    return err != MRD_OK ? err : r->err;
}

/* ---- Samples ---- */

static mrd_err
give_hbm(void *self, const mrd_hbm_row *row)
{
    mrd_rows *r = self;

    mrd_rows_clear(r->slots);
    mrd_rows_identity(r, row->process);
    r->slots[F_TS].i = row->at.ns;
    r->slots[F_DEVICE].i = row->device;
    r->slots[F_HBM_INDEX].i = row->index;
    r->slots[F_HBM_TOTAL].i = row->total;
    for (size_t i = 0; i < MRD_HBM_CATEGORIES; i++)
        r->slots[F_HBM_FIRST + i].i = row->bytes[i];
    return mrd_rows_give(r, MRD_ROWS_HBM);
}

mrd_err
mrd_rows_flush_memory(mrd_rows *r)
{
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < r->n_memory && err == MRD_OK; i++) {
        const memory_row *m = &r->memory[i];

        mrd_rows_clear(r->slots);
        mrd_rows_identity(r, m->process);
        r->slots[F_TS].i = m->ts.ns;
        r->slots[F_USED_BYTES].i =
            m->used < 0 || m->used >= (double) INT64_MAX ? -1 : (int64_t) m->used;
        r->slots[F_USED_PERCENT].d = m->percent < 0 ? -1 : m->percent;
        err = mrd_rows_give(r, MRD_ROWS_MEMORY);
    }
    r->n_memory = 0;
    return err;
}

static mrd_err
add_memory(mrd_rows *r, const mrd_event *ev, bool percent, double value)
{
    mrd_proc_id process = mrd_catalog_borrow_track(r->cat, ev->track)->process;
    size_t i = 0;
    mrd_err err;

    if (r->n_memory > 0 && r->memory[0].ts.ns != ev->ts.ns &&
        (err = mrd_rows_flush_memory(r)) != MRD_OK)
        return err;
    while (i < r->n_memory && r->memory[i].process != process)
        i++;
    if (!MRD_VEC_ROOM(r->memory, i, r->cap_memory, 1))
        return MRD_NOMEM;
    if (i == r->n_memory)
        r->memory[r->n_memory++] = (memory_row){
            .track = ev->track, .process = process, .used = -1, .percent = -1, .ts = ev->ts
        };
    *(percent ? &r->memory[i].percent : &r->memory[i].used) = value;
    return MRD_OK;
}

static mrd_err
add_counter(mrd_rows *r, const mrd_event *ev)
{
    const mrd_track *t = mrd_catalog_borrow_track(r->cat, ev->track);
    mrd_str name = mrd_catalog_text(r->cat, t->name);
    bool is_int = (ev->flags & MRD_EV_INT) != 0;
    double value = !is_int                       ? ev->value
                   : ev->flags & MRD_EV_UNSIGNED ? (double) (uint64_t) ev->ivalue
                                                 : (double) ev->ivalue;
    bool used = mrd_str_is(name, MRD_NAME_MEM_USED) || mrd_str_is(name, MRD_NAME_MEM_MONITOR);

    r->slots[F_VALUE].d = value;
    r->slots[F_VALUE_INT].i = is_int ? ev->ivalue : 0;
    r->slots[F_IS_INT].i = !is_int ? 0 : ev->flags & MRD_EV_UNSIGNED && ev->ivalue < 0 ? 2 : 1;
    r->slots[F_SIMULATED].i = (ev->flags & MRD_EV_SIMULATED) != 0;
    if (r->table_of[MRD_ROWS_COUNTERS] != NO_TABLE)
        return mrd_rows_give(r, MRD_ROWS_COUNTERS);
    if (t->source == MRD_SRC_HOST && (used || mrd_str_is(name, MRD_NAME_MEM_PERCENT)))
        return add_memory(r, ev, !used, value);
    if (mrd_rows_track(r, ev->track)[F_CPU_ID - F_TRACK].sid != MRD_SID_EMPTY)
        return mrd_rows_give(r, MRD_ROWS_CPU);
    if (r->hbm != NULL && mrd_hbm_is(name))
        return mrd_hbm_add(r->hbm, ev, value);
    r->other_samples++;
    return MRD_OK;
}

mrd_err
mrd_rows_event(mrd_rows *r, const mrd_event *ev)
{
    mrd_err err;

    if (ev->track >= r->n_tracks || !mrd_workers_knows(r->workers, ev->track))
        return MRD_STATE;
    if (r->report != NULL && (err = mrd_report_add(r->report, ev)) != MRD_OK)
        return err;
    r->first = !r->any || mrd_ev_before(ev->ts, r->first) ? ev->ts : r->first;
    r->last = !r->any || mrd_ev_after(mrd_event_end(ev), r->last)
                  ? (mrd_event_end(ev).ns == INT64_MAX ? ev->ts : mrd_event_end(ev))
                  : r->last;
    r->any = true;
    r->slots[F_TRACK].i = ev->track;
    r->slots[F_TS].i = ev->ts.ns;
    r->slots[F_BOUND].i = bound_of(ev->bound_ns);
    if (ev->kind == MRD_COUNTER)
        return add_counter(r, ev);
    if (ev->kind != MRD_LOSS)
        return add_event(r, ev);
    r->slots[F_DUR].i = ev->dur_ns;
    r->slots[F_LOST].i = ev->ivalue;
    r->slots[F_NAME].sid = ev->name;
    return mrd_rows_give(r, MRD_ROWS_LOSSES);
}

/* ---- Collectives ---- */

/* Returns the possible error of the runtime's mapping of this core's clock, as in the report. */
static int64_t
mapping_of(const mrd_rows *r, uint32_t worker)
{
    uint64_t longest = r->seen[worker].longest_ns;
    uint64_t seconds = longest / MRD_SEC + (longest % MRD_SEC != 0);

    return !mrd_workers_at(r->workers, worker)->mapped
               ? 0
               : (int64_t) (MRD_REPORT_MAPPING * (seconds == 0 ? 1 : seconds));
}

static void
collective_done(void *self, const mrd_gathered *c)
{
    mrd_rows *r = self;

    if (c->n < 2)
        return;
    if (c->group >= r->n_groups)
        r->n_groups = c->group + 1;
    for (size_t i = 0; i < c->n && r->err == MRD_OK; i++) {
        const mrd_gather_part *p = &c->parts[i];
        const mrd_worker *w = mrd_workers_at(r->workers, p->core);

        mrd_rows_identity(r, w->process);
        r->slots[F_COLLECTIVE].i = (int64_t) r->collectives;
        r->slots[F_GROUP].i = c->group;
        r->slots[F_NAME].sid = c->name;
        r->slots[F_SIZE].i = c->size;
        r->slots[F_PARTS].i = (int64_t) c->n;
        r->slots[F_POS].i = (int64_t) i;
        r->slots[F_TS].i = p->begin.ns;
        r->slots[F_END].i = p->end.ns;
        r->slots[F_BOUND].i =
            p->bound_ns == MRD_BOUND_LOCAL && !r->bounded[w->process] ? -1 : bound_of(p->bound_ns);
        r->slots[F_MAPPING].i = mapping_of(r, p->core);
        r->slots[F_SUSPECT].i = r->suspect[w->process];
        r->slots[F_WORKER].i = p->core;
        r->slots[F_LNC].i = w->lnc_idx;
        r->slots[F_DEVICE].i = w->device_idx;
        r->err = mrd_rows_give(r, MRD_ROWS_PARTS);
    }
    r->collectives++;
}

/* ---- Lifecycle ---- */

static void
name_session(mrd_rows *r)
{
    const char *id = mrd_catalog_get(r->cat, "session.id");
    mrd_ev_ns first = r->env->options->wall_time && !mrd_ev_after(r->env->first, r->env->last)
                          ? r->env->first
                          : (mrd_ev_ns){ 0 };
    time_t seconds = (time_t) (first.ns / MRD_SEC);
    struct tm day;
    size_t n;

    if (id == NULL || *id == '\0')
        id = "files";
    n = (size_t) snprintf(r->session, sizeof(r->session), "s-%.*s", (int) sizeof(r->session) - 8,
                          id);
    for (size_t i = 0; i < n && i < sizeof(r->session); i++) {
        char c = r->session[i];
        bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '-' || c == '_' || c == '.';

        if (!fine)
            r->session[i] = '_';
    }
    if (gmtime_r(&seconds, &day) == NULL ||
        strftime(r->date, sizeof(r->date), "%Y-%m-%d", &day) == 0)
        memcpy(r->date, "1970-01-01", 11);
}

static mrd_err
rows_make(mrd_rows *r)
{
    size_t processes = mrd_catalog_processes(r->cat);

    for (size_t i = 0; i < WORDS; i++) {
        if (mrd_strlist_add(&r->own, mrd_str_of(words[i])) != MRD_OK)
            return MRD_NOMEM;
    }
    r->n_tracks = mrd_catalog_tracks(r->cat);
    r->tracks = calloc(r->n_tracks + 1, TRACK_FIELDS * sizeof(*r->tracks));
    r->suspect = calloc(processes + 1, sizeof(*r->suspect));
    r->bounded = calloc(processes + 1, sizeof(*r->bounded));
    r->step_end = calloc(processes + 1, sizeof(*r->step_end));
    for (size_t i = 0; r->step_end != NULL && i < processes; i++)
        r->step_end[i].ns = INT64_MIN;
    r->node = calloc(processes + 1, sizeof(*r->node));
    r->arg_column = malloc(r->n_catalog + 1);
    r->workers = mrd_workers_new(r->env);
    if (r->workers != NULL)
        r->seen = calloc(mrd_workers_count(r->workers) + 1, sizeof(*r->seen));
    for (size_t i = 0; r->seen != NULL && i < mrd_workers_count(r->workers); i++)
        r->seen[i] = (worker_seen){ { INT64_MAX }, { INT64_MIN }, 0 };
    r->gather = mrd_gather_new(r->cat, collective_done, r);
    if (r->tracks == NULL || r->arg_column == NULL || r->suspect == NULL || r->bounded == NULL ||
        r->step_end == NULL || r->node == NULL || r->seen == NULL || r->gather == NULL)
        return MRD_NOMEM;
    if (r->table_of[MRD_ROWS_VERDICTS] != NO_TABLE && (r->report = mrd_report_new(r->env)) == NULL)
        return MRD_NOMEM;
    if (r->table_of[MRD_ROWS_HBM] != NO_TABLE &&
        (r->hbm = mrd_hbm_new(r->cat, give_hbm, r)) == NULL)
        return MRD_NOMEM;
    for (mrd_proc_id i = 0; i < processes; i++)
        judge_process(r, i);
    for (mrd_track_id i = 0; i < r->n_tracks; i++)
        track_fields(r, i);
    mrd_rows_clear(r->slots);
    memset(r->arg_column, MRD_ARG_COLUMNS, r->n_catalog);
    if (r->dialect->promote)
        mrd_arg_key_columns(mrd_catalog_strings(r->cat), r->arg_column, r->n_catalog);
    return r->err;
}

mrd_err
mrd_rows_new(const mrd_sink_env *env, const mrd_dialect *dialect, mrd_rows_fn *give, void *self,
             mrd_rows **ret_rows, mrd_why *why)
{
    mrd_rows *r = calloc(1, sizeof(*r));

    if (r == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "tables");
    r->env = env;
    r->cat = env->catalog;
    r->dialect = dialect;
    r->give = give;
    r->self = self;
    r->n_catalog = mrd_strtab_count(mrd_catalog_strings(r->cat));
    for (size_t i = 0; i <= MRD_ROWS_KINDS; i++)
        r->table_of[i] = NO_TABLE;
    for (size_t i = 0; i < dialect->n; i++) {
        if (dialect->tables[i].rows != MRD_ROWS_NONE)
            r->table_of[dialect->tables[i].rows] = (int) i;
    }
    name_session(r);
    if (rows_make(r) != MRD_OK) {
        mrd_rows_free(r);
        return mrd_why_set(why, MRD_NOMEM, 0, "tables");
    }
    *ret_rows = r;
    return MRD_OK;
}

void
mrd_rows_free(mrd_rows *r)
{
    if (r == NULL)
        return;
    mrd_workers_free(r->workers);
    mrd_report_free(r->report);
    mrd_gather_free(r->gather);
    mrd_strlist_fini(&r->own);
    mrd_buf_fini(&r->text);
    free(r->seen);
    free(r->tracks);
    free(r->arg_column);
    free(r->suspect);
    free(r->bounded);
    free(r->step_end);
    free(r->node);
    free(r->memory);
    mrd_hbm_free(r->hbm);
    free(r);
}
