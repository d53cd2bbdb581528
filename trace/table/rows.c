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
    /* no span ever has GAP or PAUSED, so their words are never used */
    [MRD_ON_HOST] = WORD_HOST,
    [MRD_ON_GAP] = WORD_HOST,
    [MRD_ON_PAUSED] = WORD_HOST,
};

mrd_sid
mrd_rows_own(mrd_rows *rows, const char *text)
{
    mrd_sid known;

    if (*text == '\0')
        return MRD_SID_EMPTY;
    if ((known = mrd_strtab_find(mrd_catalog_strings(rows->cat), mrd_str_of(text))) !=
        MRD_SID_EMPTY)
        return known;
    for (size_t i = WORDS; i < rows->own.n; i++) {
        if (strcmp(rows->own.v[i], text) == 0)
            return (mrd_sid) (rows->n_catalog + i);
    }
    if (mrd_strlist_add(&rows->own, mrd_str_of(text)) != MRD_OK) {
        rows->err = MRD_NOMEM;
        return MRD_SID_EMPTY;
    }
    return (mrd_sid) (rows->n_catalog + rows->own.n - 1);
}

mrd_str
mrd_rows_text(const mrd_rows *rows, mrd_sid sid)
{
    if (sid < rows->n_catalog)
        return mrd_catalog_text(rows->cat, sid);
    return sid - rows->n_catalog < rows->own.n ? mrd_str_of(rows->own.v[sid - rows->n_catalog])
                                               : MRD_STR("");
}

size_t
mrd_rows_sids(const mrd_rows *rows)
{
    return rows->n_catalog + rows->own.n;
}

const mrd_slot *
mrd_rows_track(const mrd_rows *rows, mrd_track_id track)
{
    return rows->tracks + (size_t) track * TRACK_FIELDS;
}

size_t
mrd_rows_tracks(const mrd_rows *rows)
{
    return rows->n_tracks;
}

const char *
mrd_rows_session(const mrd_rows *rows)
{
    return rows->session;
}

const char *
mrd_rows_date(const mrd_rows *rows)
{
    return rows->date;
}

mrd_err
mrd_rows_give(mrd_rows *rows, mrd_rows_kind kind)
{
    return rows->table_of[kind] == NO_TABLE
               ? MRD_OK
               : rows->give(rows->self, (size_t) rows->table_of[kind], rows->slots);
}

void
mrd_rows_clear(mrd_slot slots[F_COUNT])
{
    memset(slots, 0, F_COUNT * sizeof(*slots));
    slots[F_NONE].i = -1;
    for (size_t i = F_ARG_FIRST; i <= F_ARG_LAST; i++)
        slots[i].i = -1;
}

/* ---- Fields of tracks and processes ---- */

/* Sets the fields that identify a process, in tables without tracks. */
void
mrd_rows_identity(mrd_rows *rows, mrd_proc_id process)
{
    const mrd_process *p = mrd_catalog_borrow_process(rows->cat, process);

    rows->slots[F_PROC].i = process;
    rows->slots[F_INSTANCE].sid = p->instance_id;
    rows->slots[F_PID].i = p->process_id;
    rows->slots[F_RANK].i = p->rank;
    rows->slots[F_CLOCK].i = p->clock;
    rows->slots[F_NODE].i = rows->node[process];
    rows->slots[F_WORKER_GID].i = p->worker_gid;
    rows->slots[F_JOB].sid = p->job;
    rows->slots[F_SESSION].sid = mrd_rows_own(rows, rows->session);
}

/* Returns the number of the worker to which a track belongs, or -1 if it belongs to none. */
static int64_t
worker_of(const mrd_rows *rows, mrd_track_id id)
{
    uint32_t worker = mrd_workers_of(rows->workers, id);

    return worker == MRD_NO_WORKER ? -1 : (int64_t) worker;
}

static void
track_fields(mrd_rows *rows, mrd_track_id id)
{
    const mrd_track *track = mrd_catalog_borrow_track(rows->cat, id);
    mrd_slot *to = rows->slots;
    mrd_str cpu = { 0 };
    char name[64];

    mrd_rows_identity(rows, track->process);
    to[F_TRACK].i = id;
    to[F_SOURCE].sid = mrd_rows_own(rows, mrd_source_text(track->source));
    to[F_VENDOR_SOURCE].sid = mrd_rows_own(rows, mrd_source_vendor_text(track->source));
    to[F_TRACK_NAME].sid = track->name;
    to[F_UNIT].sid = track->unit_name != 0 ? track->unit_name
                     : track->unit == MRD_UNIT_NONE
                         ? MRD_SID_EMPTY
                         : mrd_rows_own(rows, mrd_unit_text(track->unit));
    if (track->worker_gid != MRD_NONE)
        to[F_WORKER_GID].i = track->worker_gid;
    to[F_WORKER].i = worker_of(rows, id);
    to[F_LNC].i = track->lnc_idx;
    to[F_PCORE].i = track->pcore_idx;
    to[F_DEVICE].i = track->device_idx;
    to[F_TID].i = track->thread_id;
    to[F_CPU_ID].sid = MRD_SID_EMPTY;
    if (track->kind == MRD_TRACK_COUNTER && track->source == MRD_SRC_HOST &&
        mrd_json_cpu_id(mrd_catalog_text(rows->cat, track->name), &cpu) && cpu.len < sizeof(name)) {
        memcpy(name, cpu.p, cpu.len);
        name[cpu.len] = '\0';
        to[F_CPU_ID].sid = mrd_rows_own(rows, name);
    }
    memcpy(rows->tracks + (size_t) id * TRACK_FIELDS, to + F_TRACK, TRACK_FIELDS * sizeof(*to));
}

/* Returns true if the clock of a process is suspect, or if a check has contradicted it until now.
 * *ret_bounded is true if the clock has an error bound. A bound of 0 on a local time then means
 * that the time is exact. */
static bool
is_suspect(const mrd_rows *rows, mrd_proc_id id, bool *ret_bounded)
{
    const mrd_process *process = mrd_catalog_borrow_process(rows->cat, id);
    size_t n;
    const mrd_clock_info *clocks = mrd_catalog_clocks(rows->cat, &n);
    bool suspect = false;

    *ret_bounded = false;
    for (size_t i = 1; i < n; i++) {
        if (process->clock != i && (clocks[i].node == 0 || clocks[i].node != process->instance_id))
            continue;
        *ret_bounded = *ret_bounded || clocks[i].bound_ns >= 0;
        suspect = suspect || clocks[i].violations > 0 ||
                  mrd_str_is(mrd_catalog_text(rows->cat, clocks[i].quality), "suspect");
    }
    return suspect;
}

/* Sets suspect, bounded and node of a process. Processes get the same node number if they share a
 * clock, so that their times may be compared without error bounds
 * (trace/analysis/judge/proof.h). */
static void
judge_process(mrd_rows *rows, mrd_proc_id id)
{
    const mrd_process *p = mrd_catalog_borrow_process(rows->cat, id), *q;
    bool known = !mrd_str_is(mrd_catalog_text(rows->cat, p->instance_id), "unknown"),
         one = rows->env->options->same_clock;

    rows->suspect[id] = is_suspect(rows, id, &rows->bounded[id]);
    rows->node[id] = id;
    for (mrd_proc_id process_id = 0; (known || one) && process_id < id; process_id++) {
        q = mrd_catalog_borrow_process(rows->cat, process_id);
        if (q->instance_id == p->instance_id && (one || q->scope == p->scope)) {
            rows->node[id] = rows->node[process_id];
            break;
        }
    }
}

bool
mrd_rows_contradicted(const mrd_rows *rows)
{
    bool bounded;

    for (mrd_proc_id id = 0; id < mrd_catalog_processes(rows->cat); id++) {
        if (!rows->suspect[id] && is_suspect(rows, id, &bounded))
            return true;
    }
    return false;
}

/* ---- Columns of arguments ---- */

/* Returns the index of the column for an event argument; MRD_ARG_COLUMNS if the argument has no
 * column. */
static size_t
arg_column(const mrd_rows *rows, const mrd_arg *arg)
{
    if (arg->type != MRD_ARG_INT || arg->v.i < 0 || arg->key >= rows->n_catalog)
        return MRD_ARG_COLUMNS;
    return rows->arg_column[arg->key];
}

static void
put_args(mrd_rows *rows, const mrd_event *ev)
{
    uint64_t set;

    mrd_buf_reset(&rows->text);
    /* clear the columns that the previous event set */
    for (set = (uint64_t) rows->slots[F_ARG_SET].i; set != 0; set &= set - 1)
        rows->slots[F_ARG_FIRST + __builtin_ctzll(set)].i = -1;
    for (uint32_t i = 0; i < ev->arg_count; i++) {
        size_t column = arg_column(rows, &ev->args[i]);

        if (column < MRD_ARG_COLUMNS && (set >> column & 1) == 0) {
            rows->slots[F_ARG_FIRST + column].i = ev->args[i].v.i;
            set |= UINT64_C(1) << column;
        } else {
            mrd_rows_arg(rows, &ev->args[i]);
        }
    }
    rows->slots[F_ARG_SET].i = (int64_t) set;
    if (rows->text.len > 0)
        mrd_buf_byte(&rows->text, '}');
    if (rows->text.err != MRD_OK)
        rows->err = rows->text.err;
    rows->slots[F_ARGS].text.p = (const char *) rows->text.p;
    rows->slots[F_ARGS].text.len = rows->text.len;
}

/* ---- Rows of events ---- */

static int64_t
bound_of(uint32_t bound_ns)
{
    return bound_ns == MRD_BOUND_UNKNOWN ? -1 : (int64_t) bound_ns;
}

static mrd_err
give_flows(mrd_rows *rows, const mrd_event *ev, const mrd_flow *flows, size_t n)
{
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < n && err == MRD_OK; i++) {
        rows->slots[F_FLOW_ID].i = (int64_t) flows[i].id;
        rows->slots[F_FLOW_DIR].sid =
            rows_word(rows, flows[i].dir == MRD_FLOW_START  ? WORD_START
                            : flows[i].dir == MRD_FLOW_STEP ? WORD_FLOW_STEP
                                                            : WORD_END);
        rows->slots[F_TRACK].i = ev->track;
        err = mrd_rows_give(rows, MRD_ROWS_FLOWS);
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

/* Returns the number at the end of a step's name, or -1 if the name has none. */
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

/* Emits a row of the table of steps. step_counts is 0 for a step that overlaps an earlier one,
 * which trace/analysis/judge/steps.h does not count. */
static mrd_err
give_step(mrd_rows *rows, const mrd_event *ev)
{
    mrd_proc_id process = mrd_catalog_borrow_track(rows->cat, ev->track)->process;
    bool counts = ev->dur_ns > 0 && !mrd_ev_before(ev->ts, rows->step_end[process]);
    const mrd_arg *number =
        mrd_event_arg(ev, mrd_arg_key_find(mrd_catalog_strings(rows->cat), MRD_KEY_STEP_NUM));

    if (counts)
        rows->step_end[process] = mrd_event_end(ev);
    mrd_rows_identity(rows, process);
    rows->slots[F_STEP_COUNTS].i = counts;
    rows->slots[F_STEP].i = mrd_arg_is_int(number) && number->v.i >= 0
                                ? number->v.i
                                : step_number(mrd_catalog_text(rows->cat, ev->name));
    return mrd_rows_give(rows, MRD_ROWS_STEPS);
}

static mrd_err
add_event(mrd_rows *rows, const mrd_event *ev)
{
    mrd_flow point = { .id = ev->id, .dir = (mrd_flow_dir) ev->flow_dir };
    bool is_point = ev->kind == MRD_FLOW;
    mrd_work work = { .kind = MRD_CC_NO };
    mrd_work_kind kind = is_point ? MRD_WORK_NONE : mrd_workers_see(rows->workers, ev, &work);
    mrd_err err;

    rows->slots[F_ROW].i = (int64_t) rows->events++;
    rows->slots[F_DUR].i = ev->kind != MRD_SPAN ? 0 : ev->dur_ns < 0 ? -1 : ev->dur_ns;
    rows->slots[F_END].i =
        ev->kind != MRD_SPAN || ev->dur_ns < 0 ? ev->ts.ns : mrd_event_end(ev).ns;
    rows->slots[F_KIND].sid = rows_word(rows, ev->kind == MRD_SPAN ? WORD_SPAN : WORD_INSTANT);
    rows->slots[F_NAME].sid = ev->name;
    rows->slots[F_CATEGORY].sid = ev->category;
    rows->slots[F_ACTIVITY].sid = kind == MRD_WORK_WORKER ? rows_word(rows, on_words[work.on])
                                  : kind == MRD_WORK_STEP ? rows_word(rows, WORD_STEP)
                                                          : MRD_SID_EMPTY;
    if (kind == MRD_WORK_WORKER && work.device)
        widen(&rows->seen[work.worker], ev);
    rows->slots[F_ID].i = is_point ? 0 : (int64_t) ev->id;
    rows->slots[F_NO_START].i = (ev->flags & MRD_EV_NO_START) != 0;
    rows->slots[F_SIMULATED].i = (ev->flags & MRD_EV_SIMULATED) != 0;
    rows->slots[F_FLOWS].flows.v = is_point ? &point : ev->flows;
    rows->slots[F_FLOWS].flows.n = is_point ? 1 : ev->flow_count;
    put_args(rows, ev);
    if (!rows->dialect->promote && rows->slots[F_DUR].i < 0)
        /* The vendor's table cannot express an unknown duration. An additional attribute shows that
         * the span did not end. */
        rows->slots[F_DUR].i = 0;
    if ((err = mrd_rows_give(rows, MRD_ROWS_EVENTS)) == MRD_OK)
        err = give_flows(rows, ev, rows->slots[F_FLOWS].flows.v, rows->slots[F_FLOWS].flows.n);
    if (err == MRD_OK && kind == MRD_WORK_STEP)
        err = give_step(rows, ev);
    if (err == MRD_OK && kind == MRD_WORK_WORKER && work.kind != MRD_CC_NO)
        err = mrd_gather_add(rows->gather, work.kind, &work.what, ev, work.worker, 0);
    return err != MRD_OK ? err : rows->err;
}

/* ---- Rows of samples ---- */

static mrd_err
give_hbm(void *self, const mrd_hbm_row *row)
{
    mrd_rows *rows = self;

    mrd_rows_clear(rows->slots);
    mrd_rows_identity(rows, row->process);
    rows->slots[F_TS].i = row->at.ns;
    rows->slots[F_DEVICE].i = row->device;
    rows->slots[F_HBM_INDEX].i = row->index;
    rows->slots[F_HBM_TOTAL].i = row->total;
    for (size_t i = 0; i < MRD_HBM_CATEGORIES; i++)
        rows->slots[F_HBM_FIRST + i].i = row->bytes[i];
    return mrd_rows_give(rows, MRD_ROWS_HBM);
}

mrd_err
mrd_rows_flush_memory(mrd_rows *rows)
{
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < rows->n_memory && err == MRD_OK; i++) {
        const memory_row *row = &rows->memory[i];

        mrd_rows_clear(rows->slots);
        mrd_rows_identity(rows, row->process);
        rows->slots[F_TS].i = row->ts.ns;
        rows->slots[F_USED_BYTES].i =
            row->used < 0 || row->used >= (double) INT64_MAX ? -1 : (int64_t) row->used;
        rows->slots[F_USED_PERCENT].d = row->percent < 0 ? -1 : row->percent;
        err = mrd_rows_give(rows, MRD_ROWS_MEMORY);
    }
    rows->n_memory = 0;
    return err;
}

static mrd_err
add_memory(mrd_rows *rows, const mrd_event *ev, bool percent, double value)
{
    mrd_proc_id process = mrd_catalog_borrow_track(rows->cat, ev->track)->process;
    size_t i = 0;
    mrd_err err;

    if (rows->n_memory > 0 && rows->memory[0].ts.ns != ev->ts.ns &&
        (err = mrd_rows_flush_memory(rows)) != MRD_OK)
        return err;
    while (i < rows->n_memory && rows->memory[i].process != process)
        i++;
    if (!MRD_VEC_ROOM(rows->memory, i, rows->cap_memory, 1))
        return MRD_NOMEM;
    if (i == rows->n_memory)
        rows->memory[rows->n_memory++] = (memory_row){
            .track = ev->track, .process = process, .used = -1, .percent = -1, .ts = ev->ts
        };
    *(percent ? &rows->memory[i].percent : &rows->memory[i].used) = value;
    return MRD_OK;
}

static mrd_err
add_counter(mrd_rows *rows, const mrd_event *ev)
{
    const mrd_track *track = mrd_catalog_borrow_track(rows->cat, ev->track);
    mrd_str name = mrd_catalog_text(rows->cat, track->name);
    bool is_int = (ev->flags & MRD_EV_INT) != 0;
    double value = !is_int                       ? ev->value
                   : ev->flags & MRD_EV_UNSIGNED ? (double) (uint64_t) ev->ivalue
                                                 : (double) ev->ivalue;
    bool used = mrd_str_is(name, MRD_NAME_MEM_USED) || mrd_str_is(name, MRD_NAME_MEM_MONITOR);

    rows->slots[F_VALUE].d = value;
    rows->slots[F_VALUE_INT].i = is_int ? ev->ivalue : 0;
    rows->slots[F_IS_INT].i = !is_int ? 0 : ev->flags & MRD_EV_UNSIGNED && ev->ivalue < 0 ? 2 : 1;
    rows->slots[F_SIMULATED].i = (ev->flags & MRD_EV_SIMULATED) != 0;
    if (rows->table_of[MRD_ROWS_COUNTERS] != NO_TABLE)
        return mrd_rows_give(rows, MRD_ROWS_COUNTERS);
    if (track->source == MRD_SRC_HOST && (used || mrd_str_is(name, MRD_NAME_MEM_PERCENT)))
        return add_memory(rows, ev, !used, value);
    if (mrd_rows_track(rows, ev->track)[F_CPU_ID - F_TRACK].sid != MRD_SID_EMPTY)
        return mrd_rows_give(rows, MRD_ROWS_CPU);
    if (rows->hbm != NULL && mrd_hbm_is(name))
        return mrd_hbm_add(rows->hbm, ev, value);
    rows->other_samples++;
    return MRD_OK;
}

mrd_err
mrd_rows_event(mrd_rows *rows, const mrd_event *ev)
{
    mrd_err err;

    if (ev->track >= rows->n_tracks || !mrd_workers_knows(rows->workers, ev->track))
        return MRD_STATE;
    if (rows->report != NULL && (err = mrd_report_add(rows->report, ev)) != MRD_OK)
        return err;
    rows->first = !rows->any || mrd_ev_before(ev->ts, rows->first) ? ev->ts : rows->first;
    rows->last = !rows->any || mrd_ev_after(mrd_event_end(ev), rows->last)
                     ? (mrd_event_end(ev).ns == INT64_MAX ? ev->ts : mrd_event_end(ev))
                     : rows->last;
    rows->any = true;
    rows->slots[F_TRACK].i = ev->track;
    rows->slots[F_TS].i = ev->ts.ns;
    rows->slots[F_BOUND].i = bound_of(ev->bound_ns);
    if (ev->kind == MRD_COUNTER)
        return add_counter(rows, ev);
    if (ev->kind != MRD_LOSS)
        return add_event(rows, ev);
    rows->slots[F_DUR].i = ev->dur_ns;
    rows->slots[F_LOST].i = ev->ivalue;
    rows->slots[F_NAME].sid = ev->name;
    return mrd_rows_give(rows, MRD_ROWS_LOSSES);
}

/* ---- Rows of collectives ---- */

/* Returns the error in ns from the conversion of a part's begin from its device's clock. 0 if the
 * time is not from a device's clock, -1 if the part's error bound includes this error. */
static int64_t
mapping_of(const mrd_rows *rows, const mrd_gather_part *part)
{
    if (!mrd_workers_at(rows->workers, part->core)->mapped)
        return 0;
    return part->device_bound ? -1 : (int64_t) mrd_proof_mapping(rows->seen[part->core].longest_ns);
}

static void
collective_done(void *self, const mrd_gathered *group)
{
    mrd_rows *rows = self;

    if (group->n < 2)
        return;
    if (group->group >= rows->n_groups)
        rows->n_groups = group->group + 1;
    for (size_t i = 0; i < group->n && rows->err == MRD_OK; i++) {
        const mrd_gather_part *part = &group->parts[i];
        const mrd_worker *worker = mrd_workers_at(rows->workers, part->core);

        mrd_rows_identity(rows, worker->process);
        rows->slots[F_COLLECTIVE].i = (int64_t) rows->collectives;
        rows->slots[F_GROUP].i = group->group;
        rows->slots[F_NAME].sid = group->name;
        rows->slots[F_SIZE].i = group->size;
        rows->slots[F_PARTS].i = (int64_t) group->n;
        rows->slots[F_POS].i = (int64_t) i;
        rows->slots[F_TS].i = part->begin.ns;
        rows->slots[F_END].i = part->end.ns;
        rows->slots[F_BOUND].i =
            part->bound_ns == MRD_BOUND_LOCAL && !rows->bounded[worker->process]
                ? -1
                : bound_of(part->bound_ns);
        rows->slots[F_MAPPING].i = mapping_of(rows, part);
        rows->slots[F_SUSPECT].i = rows->suspect[worker->process];
        rows->slots[F_WORKER].i = part->core;
        rows->slots[F_LNC].i = worker->lnc_idx;
        rows->slots[F_DEVICE].i = worker->device_idx;
        rows->err = mrd_rows_give(rows, MRD_ROWS_PARTS);
    }
    rows->collectives++;
}

/* ---- Creating and freeing ---- */

static void
name_session(mrd_rows *rows)
{
    const char *id = mrd_catalog_get(rows->cat, "session.id");
    mrd_ev_ns first =
        rows->env->options->wall_time && !mrd_ev_after(rows->env->first, rows->env->last)
            ? rows->env->first
            : (mrd_ev_ns){ 0 };
    time_t seconds = (time_t) (first.ns / MRD_SEC);
    struct tm day;
    size_t n;

    if (id == NULL || *id == '\0')
        id = "files";
    n = (size_t) snprintf(rows->session, sizeof(rows->session), "s-%.*s",
                          (int) sizeof(rows->session) - 8, id);
    for (size_t i = 0; i < n && i < sizeof(rows->session); i++) {
        char c = rows->session[i];
        bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '-' || c == '_' || c == '.';

        if (!fine)
            rows->session[i] = '_';
    }
    if (gmtime_r(&seconds, &day) == NULL ||
        strftime(rows->date, sizeof(rows->date), "%Y-%m-%d", &day) == 0)
        memcpy(rows->date, "1970-01-01", 11);
}

static mrd_err
rows_make(mrd_rows *rows)
{
    size_t processes = mrd_catalog_processes(rows->cat);

    for (size_t i = 0; i < WORDS; i++) {
        if (mrd_strlist_add(&rows->own, mrd_str_of(words[i])) != MRD_OK)
            return MRD_NOMEM;
    }
    rows->n_tracks = mrd_catalog_tracks(rows->cat);
    rows->tracks = calloc(rows->n_tracks + 1, TRACK_FIELDS * sizeof(*rows->tracks));
    rows->suspect = calloc(processes + 1, sizeof(*rows->suspect));
    rows->bounded = calloc(processes + 1, sizeof(*rows->bounded));
    rows->step_end = calloc(processes + 1, sizeof(*rows->step_end));
    for (size_t i = 0; rows->step_end != NULL && i < processes; i++)
        rows->step_end[i].ns = INT64_MIN;
    rows->node = calloc(processes + 1, sizeof(*rows->node));
    rows->arg_column = malloc(rows->n_catalog + 1);
    rows->workers = mrd_workers_new(rows->env);
    if (rows->workers != NULL)
        rows->seen = calloc(mrd_workers_count(rows->workers) + 1, sizeof(*rows->seen));
    for (size_t i = 0; rows->seen != NULL && i < mrd_workers_count(rows->workers); i++)
        rows->seen[i] = (worker_seen){ { INT64_MAX }, { INT64_MIN }, 0 };
    rows->gather = mrd_gather_new(rows->cat, collective_done, rows);
    if (rows->tracks == NULL || rows->arg_column == NULL || rows->suspect == NULL ||
        rows->bounded == NULL || rows->step_end == NULL || rows->node == NULL ||
        rows->seen == NULL || rows->gather == NULL)
        return MRD_NOMEM;
    if (rows->table_of[MRD_ROWS_VERDICTS] != NO_TABLE &&
        (rows->report = mrd_report_new(rows->env)) == NULL)
        return MRD_NOMEM;
    if (rows->table_of[MRD_ROWS_HBM] != NO_TABLE &&
        (rows->hbm = mrd_hbm_new(rows->cat, give_hbm, rows)) == NULL)
        return MRD_NOMEM;
    for (mrd_proc_id id = 0; id < processes; id++)
        judge_process(rows, id);
    for (mrd_track_id id = 0; id < rows->n_tracks; id++)
        track_fields(rows, id);
    mrd_rows_clear(rows->slots);
    memset(rows->arg_column, MRD_ARG_COLUMNS, rows->n_catalog);
    if (rows->dialect->promote)
        mrd_arg_key_columns(mrd_catalog_strings(rows->cat), rows->arg_column, rows->n_catalog);
    return rows->err;
}

mrd_err
mrd_rows_new(const mrd_sink_env *env, const mrd_dialect *dialect, mrd_rows_fn *give, void *self,
             mrd_rows **ret_rows, mrd_why *why)
{
    mrd_rows *rows = calloc(1, sizeof(*rows));

    if (rows == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "tables");
    rows->env = env;
    rows->cat = env->catalog;
    rows->dialect = dialect;
    rows->give = give;
    rows->self = self;
    rows->n_catalog = mrd_strtab_count(mrd_catalog_strings(rows->cat));
    for (size_t i = 0; i <= MRD_ROWS_KINDS; i++)
        rows->table_of[i] = NO_TABLE;
    for (size_t i = 0; i < dialect->n; i++) {
        if (dialect->tables[i].rows != MRD_ROWS_NONE)
            rows->table_of[dialect->tables[i].rows] = (int) i;
    }
    name_session(rows);
    if (rows_make(rows) != MRD_OK) {
        mrd_rows_free(rows);
        return mrd_why_set(why, MRD_NOMEM, 0, "tables");
    }
    *ret_rows = rows;
    return MRD_OK;
}

void
mrd_rows_free(mrd_rows *rows)
{
    if (rows == NULL)
        return;
    mrd_workers_free(rows->workers);
    mrd_report_free(rows->report);
    mrd_gather_free(rows->gather);
    mrd_strlist_fini(&rows->own);
    mrd_buf_fini(&rows->text);
    free(rows->seen);
    free(rows->tracks);
    free(rows->arg_column);
    free(rows->suspect);
    free(rows->bounded);
    free(rows->step_end);
    free(rows->node);
    free(rows->memory);
    mrd_hbm_free(rows->hbm);
    free(rows);
}
