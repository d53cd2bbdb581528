/* Tables that are emitted after the last event. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/num.h"
#include "base/obj.h"
#include "trace/table/rows_int.h"

static void
begin(mrd_rows *r)
{
    mrd_rows_clear(r->slots);
    r->slots[F_SESSION].sid = mrd_rows_own(r, r->session);
}

static void
set_text(mrd_rows *r, mrd_field field, mrd_str text)
{
    r->slots[field].text.p = text.p;
    r->slots[field].text.len = text.len;
}

static mrd_err
end_groups(mrd_rows *r)
{
    bool contradicted = mrd_rows_contradicted(r);
    mrd_err err = MRD_OK;

    for (uint32_t g = 0; g < r->n_groups && err == MRD_OK; g++) {
        uint32_t members;

        begin(r);
        r->slots[F_GROUP].i = g;
        r->slots[F_TAKERS].i = mrd_gather_takers(r->gather, g, &members);
        r->slots[F_MEMBERS].i = members == MRD_GATHER_MORE ? -1 : (int64_t) members;
        r->slots[F_CONTRADICTED].i = contradicted;
        err = mrd_rows_give(r, MRD_ROWS_GROUPS);
    }
    return err;
}

static mrd_err
end_workers(mrd_rows *r)
{
    mrd_err err = MRD_OK;

    for (uint32_t i = 0; i < mrd_workers_count(r->workers) && err == MRD_OK; i++) {
        const mrd_worker *w = mrd_workers_at(r->workers, i);
        bool any = !mrd_ev_after(r->seen[i].first, r->seen[i].last);

        begin(r);
        mrd_rows_identity(r, w->process);
        r->slots[F_WORKER].i = i;
        r->slots[F_LNC].i = w->lnc_idx;
        r->slots[F_DEVICE].i = w->device_idx;
        if (w->worker_gid != MRD_NONE)
            r->slots[F_WORKER_GID].i = w->worker_gid;
        r->slots[F_FIRST].i = any ? r->seen[i].first.ns : 0;
        r->slots[F_LAST].i = any ? r->seen[i].last.ns : 0;
        err = mrd_rows_give(r, MRD_ROWS_WORKERS);
    }
    return err;
}

static mrd_err
end_processes(mrd_rows *r)
{
    mrd_err err = MRD_OK;

    for (mrd_proc_id i = 0; i < mrd_catalog_processes(r->cat) && err == MRD_OK; i++) {
        const mrd_process *p = mrd_catalog_borrow_process(r->cat, i);

        if (p->profile != r->env->profile)
            continue;
        begin(r);
        mrd_rows_identity(r, i);
        r->slots[F_CONTAINER_PID].i = p->container_pid;
        r->slots[F_NAME].sid = p->name;
        r->slots[F_POD].sid = p->pod;
        r->slots[F_LABELS].sid = p->labels;
        r->slots[F_WORLD].i = p->world_size;
        r->slots[F_IS_NODE].i = (p->flags & MRD_PROC_NODE) != 0;
        r->slots[F_SIMULATED].i = (p->flags & MRD_PROC_SIMULATED) != 0;
        err = mrd_rows_give(r, MRD_ROWS_PROCESSES);
    }
    return err;
}

static mrd_err
end_tracks(mrd_rows *r)
{
    mrd_err err = MRD_OK;

    for (mrd_track_id i = 0; i < r->n_tracks && err == MRD_OK; i++) {
        if (mrd_catalog_profile_of(r->cat, i) != r->env->profile)
            continue;
        begin(r);
        memcpy(r->slots + F_TRACK, mrd_rows_track(r, i), TRACK_FIELDS * sizeof(*r->slots));
        r->slots[F_TRACK_KIND].sid = rows_word(
            r, mrd_catalog_borrow_track(r->cat, i)->kind == MRD_TRACK_SPANS ? WORD_SPANS
                                                                            : WORD_COUNTER);
        err = mrd_rows_give(r, MRD_ROWS_TRACKS);
    }
    return err;
}

/* One row for each capture, because a device profile of one model may have captures of several
 * processes. */
static mrd_err
give_captures(mrd_rows *r, unsigned profile)
{
    mrd_err err = MRD_OK;
    bool any = false;

    for (mrd_proc_id i = 0; i < mrd_catalog_processes(r->cat) && err == MRD_OK; i++) {
        const mrd_process *p = mrd_catalog_borrow_process(r->cat, i);

        if (p->profile != profile || (p->flags & MRD_PROC_NO_PID) != 0)
            continue;
        any = true;
        r->slots[F_INSTANCE].sid = p->instance_id;
        r->slots[F_PID].i = p->process_id;
        err = mrd_rows_give(r, MRD_ROWS_DEVICE_PROFILES);
    }
    return any || err != MRD_OK ? err : mrd_rows_give(r, MRD_ROWS_DEVICE_PROFILES);
}

static mrd_err
end_device_profiles(mrd_rows *r)
{
    size_t n;
    const mrd_devprofile *d = mrd_catalog_devprofiles(r->cat, &n);
    mrd_err err = MRD_OK;

    for (size_t i = 1; i < n && err == MRD_OK; i++) {
        uint64_t id;

        begin(r);
        r->slots[F_MODEL_KEY].sid = d[i].model;
        r->slots[F_NAME].sid = d[i].name;
        r->slots[F_INSTANCE].sid = d[i].instance_id;
        r->slots[F_PID].i = d[i].process_id;
        r->slots[F_NC].i = d[i].nc_idx;
        r->slots[F_MODEL_SESSION].i = d[i].session;
        r->slots[F_ID].i = -1;
        if (mrd_num_digits(mrd_catalog_text(r->cat, d[i].model), &id) && id <= INT64_MAX)
            r->slots[F_ID].i = (int64_t) id;
        r->slots[F_TOTAL_NS].i = d[i].total_time_s > 0 && d[i].total_time_s < 9e9
                                     ? (int64_t) (d[i].total_time_s * 1e9)
                                     : 0;
        if ((err = mrd_rows_give(r, MRD_ROWS_MODELS)) == MRD_OK)
            err = give_captures(r, (unsigned) i);
    }
    return err;
}

static mrd_err
end_files(mrd_rows *r)
{
    size_t n;
    const mrd_artifact *a = mrd_catalog_artifacts(r->cat, &n);
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < n && err == MRD_OK; i++) {
        begin(r);
        r->slots[F_NAME].sid = a[i].kind;
        r->slots[F_INSTANCE].sid = a[i].instance_id;
        r->slots[F_PID].i = a[i].process_id;
        r->slots[F_NC].i = a[i].nc_idx;
        r->slots[F_MODEL_SESSION].i = -1;
        r->slots[F_PATH].sid = a[i].path;
        r->slots[F_BYTES].i = (int64_t) a[i].size;
        set_text(r, F_SHA256, mrd_str_of(a[i].sha256));
        err = mrd_rows_give(r, MRD_ROWS_MODELS);
        if (err != MRD_OK || !mrd_catalog_is_only_carried(r->cat, &a[i]))
            continue;
        r->slots[F_NAME].sid = a[i].profile;
        r->slots[F_MODEL_SESSION].i = a[i].session;
        r->slots[F_ID].i = -1;
        err = mrd_rows_give(r, MRD_ROWS_DEVICE_PROFILES);
    }
    return err;
}

static mrd_err
end_clocks(mrd_rows *r)
{
    size_t n;
    const mrd_clock_info *c = mrd_catalog_clocks(r->cat, &n);
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < n && err == MRD_OK; i++) {
        begin(r);
        r->slots[F_CLOCK].i = (int64_t) i;
        r->slots[F_NAME].sid = c[i].name;
        r->slots[F_INSTANCE].sid = c[i].node;
        r->slots[F_QUALITY].sid = c[i].quality;
        r->slots[F_METHOD].sid = c[i].method;
        r->slots[F_ESTIMATE].i = c[i].estimate_ns;
        r->slots[F_BOUND].i = c[i].bound_ns;
        r->slots[F_NOISE].i = c[i].noise_ns;
        r->slots[F_EPOCHS].i = c[i].epochs;
        r->slots[F_VIOLATIONS].i = (int64_t) c[i].violations;
        err = mrd_rows_give(r, MRD_ROWS_CLOCKS);
    }
    return err;
}

static mrd_err
warn(mrd_rows *r, mrd_str message, const char *category)
{
    begin(r);
    set_text(r, F_MESSAGE, message);
    set_text(r, F_TEXT, mrd_str_of(category));
    return mrd_rows_give(r, MRD_ROWS_WARNINGS);
}

static mrd_err
end_inputs(mrd_rows *r)
{
    static const mrd_word states[] = { [MRD_INPUT_OK] = WORD_OK,
                                       [MRD_INPUT_INCOMPLETE] = WORD_INCOMPLETE,
                                       [MRD_INPUT_FAILED] = WORD_FAILED,
                                       [MRD_INPUT_SKIPPED] = WORD_SKIPPED };
    size_t n;
    const mrd_input *in = mrd_catalog_inputs(r->cat, &n);
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < n && err == MRD_OK; i++) {
        begin(r);
        r->slots[F_PATH].sid = in[i].path;
        r->slots[F_NAME].sid = in[i].format;
        r->slots[F_STATE].sid = rows_word(r, states[in[i].state & 3]);
        r->slots[F_ERROR].sid = in[i].error;
        r->slots[F_BYTES].i = (int64_t) in[i].bytes;
        r->slots[F_RECORDS].i = (int64_t) in[i].records;
        r->slots[F_EVENTS].i = (int64_t) in[i].events;
        r->slots[F_UNFINISHED].i = (int64_t) in[i].unfinished;
        r->slots[F_NO_START].i = (int64_t) in[i].no_start;
        r->slots[F_DROPPED].i = (int64_t) in[i].dropped;
        r->slots[F_LOST].i = (int64_t) in[i].lost;
        err = mrd_rows_give(r, MRD_ROWS_INPUTS);
        if (err == MRD_OK && in[i].error != MRD_SID_EMPTY)
            err = warn(r, mrd_catalog_text(r->cat, in[i].error), "Missing Data");
    }
    return err;
}

static mrd_err
give_fact(mrd_rows *r, mrd_str key, mrd_str value)
{
    begin(r);
    set_text(r, F_KEY, key);
    set_text(r, F_TEXT, value);
    return mrd_rows_give(r, MRD_ROWS_FACTS);
}

static mrd_err
end_facts(mrd_rows *r)
{
    mrd_str key, value;
    char text[160];
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < mrd_catalog_facts(r->cat) && err == MRD_OK; i++) {
        mrd_catalog_fact(r->cat, i, &key, &value);
        err = give_fact(r, key, value);
    }
    for (size_t i = 0; i < mrd_catalog_notes(r->cat) && err == MRD_OK; i++) {
        if ((err = give_fact(r, MRD_STR("note"), mrd_catalog_note_at(r->cat, i))) == MRD_OK)
            err = warn(r, mrd_catalog_note_at(r->cat, i), "Note");
    }
    if (err == MRD_OK && r->other_samples > 0) {
        snprintf(text, sizeof(text),
                 "%" PRIu64
                 " samples of counters that this schema has no table for are left out (they are in "
                 "Meridian's own tables)",
                 r->other_samples);
        err = warn(r, mrd_str_of(text), "Missing Data");
    }
    return err;
}

static void
time_text(mrd_rows *r, mrd_ev_ns ns, char text[64])
{
    time_t seconds = (time_t) (ns.ns / MRD_SEC - (ns.ns % MRD_SEC < 0));
    struct tm t;
    char day[32];

    (void) r;
    if (gmtime_r(&seconds, &t) == NULL || strftime(day, sizeof(day), "%Y-%m-%d %H:%M:%S", &t) == 0)
        day[0] = '\0';
    snprintf(text, 64, "%s.%09" PRId64 " +0000 UTC", day,
             (int64_t) (ns.ns % MRD_SEC + (ns.ns % MRD_SEC < 0 ? MRD_SEC : 0)));
}

static mrd_err
end_metadata(mrd_rows *r)
{
    char first[64], last[64], first_ns[24], last_ns[24];

    begin(r);
    time_text(r, r->first, first);
    time_text(r, r->last, last);
    snprintf(first_ns, sizeof(first_ns), "%" PRId64, r->first.ns);
    snprintf(last_ns, sizeof(last_ns), "%" PRId64, r->last.ns);
    set_text(r, F_FIRST_TEXT, mrd_str_of(first));
    set_text(r, F_LAST_TEXT, mrd_str_of(last));
    set_text(r, F_FIRST_NS_TEXT, mrd_str_of(first_ns));
    set_text(r, F_LAST_NS_TEXT, mrd_str_of(last_ns));
    return r->any ? mrd_rows_give(r, MRD_ROWS_METADATA) : MRD_OK;
}

static const char *
schema_type(mrd_col_type type)
{
    return type == MRD_COL_I64                               ? "integer"
           : type == MRD_COL_DOUBLE || type == MRD_COL_FLOAT ? "number"
           : type == MRD_COL_BOOL                            ? "boolean"
           : type == MRD_COL_FLOWS                           ? "array"
                                                             : "string";
}

static mrd_err
give_schema_field(mrd_rows *r, const mrd_table_def *table, const mrd_column *column)
{
    begin(r);
    set_text(r, F_SCHEMA_TABLE, mrd_str_of(table->name));
    set_text(r, F_SCHEMA_TABLE_WHAT, mrd_str_of(table->what));
    set_text(r, F_SCHEMA_FIELD, mrd_str_of(column->name));
    set_text(r, F_SCHEMA_FIELD_WHAT, mrd_str_of(column->what));
    set_text(r, F_SCHEMA_TYPE, mrd_str_of(schema_type(column->type)));
    set_text(r, F_SCHEMA_FORMAT, mrd_str_of(column->type == MRD_COL_I64 ? "int64" : ""));
    set_text(r, F_SCHEMA_UNIT, mrd_str_of(column->unit));
    set_text(r, F_SCHEMA_EXAMPLE, MRD_STR(""));
    set_text(r, F_SCHEMA_VALUES, MRD_STR(""));
    r->slots[F_SCHEMA_REQUIRED].i = !column->optional;
    r->slots[F_SCHEMA_LEAST].d = r->slots[F_SCHEMA_MOST].d = (double) NAN;
    return mrd_rows_give(r, MRD_ROWS_SCHEMA);
}

static mrd_err
end_schema(mrd_rows *r)
{
    mrd_err err = MRD_OK;

    if (r->table_of[MRD_ROWS_SCHEMA] == NO_TABLE)
        return MRD_OK;
    for (size_t i = 0; i < r->dialect->n; i++) {
        const mrd_table_def *table = &r->dialect->tables[i];

        for (size_t c = 0; c < table->n && err == MRD_OK; c++)
            err = give_schema_field(r, table, &table->columns[c]);
    }
    return err;
}

/* Returns the worker's number in `workers`. The report has only workers with a window. */
static int64_t
number_of(const mrd_rows *r, const mrd_report_worker *w)
{
    for (uint32_t i = 0; i < mrd_workers_count(r->workers); i++) {
        const mrd_worker *v = mrd_workers_at(r->workers, i);

        if (v->process == w->process && v->lnc_idx == w->lnc_idx &&
            v->device_idx == w->device_idx && mrd_str_eq(v->ranks, w->ranks))
            return i;
    }
    return -1;
}

static mrd_err
end_verdicts(mrd_rows *r)
{
    static const mrd_word kinds[] = {
        [MRD_VERDICT_NOTHING] = WORD_NOTHING,     [MRD_VERDICT_NONE] = WORD_NONE,
        [MRD_VERDICT_STILL] = WORD_STILL,         [MRD_VERDICT_ABSENT] = WORD_ABSENT,
        [MRD_VERDICT_MORE_WORK] = WORD_MORE_WORK, [MRD_VERDICT_SOMETIMES] = WORD_SOMETIMES,
        [MRD_VERDICT_UNPROVEN] = WORD_UNPROVEN,   [MRD_VERDICT_LATE] = WORD_LATE
    };
    size_t n;
    const mrd_report_worker *v;
    mrd_verdict verdict;
    uint64_t waits, window;
    mrd_err err = MRD_OK;

    if (r->report == NULL)
        return MRD_OK;
    v = mrd_report_workers(r->report, &n);
    verdict = mrd_report_verdict(r->report);
    waits = mrd_report_totals_of(r->report)->wait_ns;
    window = mrd_report_totals_of(r->report)->window_ns;
    for (size_t i = 0; i < n && err == MRD_OK; i++) {
        bool named = i == verdict.worker || verdict.kind < MRD_VERDICT_ABSENT;

        begin(r);
        mrd_rows_identity(r, v[i].process);
        r->slots[F_WORKER].i = number_of(r, &v[i]);
        r->slots[F_LNC].i = v[i].lnc_idx;
        r->slots[F_DEVICE].i = v[i].device_idx;
        r->slots[F_FIRST].i = v[i].first.ns;
        r->slots[F_LAST].i = v[i].last.ns;
        for (size_t k = 0; k < MRD_REPORT_PARTS && k <= F_PART_LAST - F_PART_FIRST; k++)
            r->slots[F_PART_FIRST + k].i = (int64_t) v[i].part_ns[k];
        r->slots[F_TOOK_PART].i = (int64_t) v[i].took_part;
        r->slots[F_LAST_N].i = (int64_t) v[i].came_last;
        r->slots[F_PROVEN_N].i = (int64_t) v[i].proven;
        r->slots[F_ALONE_NS].i = (int64_t) v[i].alone_ns;
        r->slots[F_ALONE_WAIT_NS].i = (int64_t) v[i].alone_wait_ns;
        r->slots[F_CAUSED_NS].i = (int64_t) v[i].caused_ns;
        r->slots[F_PROVEN_NS].i = (int64_t) v[i].proven_ns;
        r->slots[F_WAIT_NS].i = (int64_t) v[i].wait_ns;
        r->slots[F_LOST].i = (int64_t) v[i].lost;
        r->slots[F_VERDICT].sid = rows_word(r, named ? kinds[verdict.kind] : WORD_NONE);
        r->slots[F_SHARE].d = waits == 0 ? 0 : (double) v[i].caused_ns / (double) waits;
        r->slots[F_IMPACT].d = window == 0 ? 0 : (double) v[i].own_wait_ns / (double) window;
        err = mrd_rows_give(r, MRD_ROWS_VERDICTS);
    }
    return err;
}

mrd_err
mrd_rows_finish(mrd_rows *r)
{
    static mrd_err (*const tables[])(mrd_rows *) = {
        end_groups, end_workers, end_processes, end_tracks,   end_device_profiles, end_files,
        end_clocks, end_inputs,  end_facts,     end_metadata, end_schema,          end_verdicts,
    };
    mrd_err err;

    mrd_gather_finish(r->gather);
    if (r->err != MRD_OK)
        return r->err;
    if ((err = mrd_rows_flush_memory(r)) != MRD_OK ||
        (r->hbm != NULL && (err = mrd_hbm_flush(r->hbm)) != MRD_OK))
        return err;
    if (r->report != NULL && (err = mrd_report_finish(r->report)) != MRD_OK)
        return err;
    for (size_t i = 0; i < MRD_COUNT(tables) && err == MRD_OK; i++)
        err = tables[i](r);
    return err != MRD_OK ? err : r->err;
}
