/* trace/table/rows_end.c - emits the rows of the tables that are written after the last event. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/num.h"
#include "base/obj.h"
#include "trace/table/rows_int.h"

static void
begin(mrd_rows *rows)
{
    mrd_rows_clear(rows->slots);
    rows->slots[F_SESSION].sid = mrd_rows_own(rows, rows->session);
}

static void
set_text(mrd_rows *rows, mrd_field field, mrd_str text)
{
    rows->slots[field].text.p = text.p;
    rows->slots[field].text.len = text.len;
}

static mrd_err
end_groups(mrd_rows *rows)
{
    bool contradicted = mrd_rows_contradicted(rows);
    mrd_err err = MRD_OK;

    for (uint32_t g = 0; g < rows->n_groups && err == MRD_OK; g++) {
        uint32_t members;

        begin(rows);
        rows->slots[F_GROUP].i = g;
        rows->slots[F_TAKERS].i = mrd_gather_takers(rows->gather, g, &members);
        rows->slots[F_MEMBERS].i = members == MRD_GATHER_MORE ? -1 : (int64_t) members;
        rows->slots[F_CONTRADICTED].i = contradicted;
        err = mrd_rows_give(rows, MRD_ROWS_GROUPS);
    }
    return err;
}

static mrd_err
end_workers(mrd_rows *rows)
{
    mrd_err err = MRD_OK;

    for (uint32_t i = 0; i < mrd_workers_count(rows->workers) && err == MRD_OK; i++) {
        const mrd_worker *worker = mrd_workers_at(rows->workers, i);
        bool any = !mrd_ev_after(rows->seen[i].first, rows->seen[i].last);

        begin(rows);
        mrd_rows_identity(rows, worker->process);
        rows->slots[F_WORKER].i = i;
        rows->slots[F_LNC].i = worker->lnc_idx;
        rows->slots[F_DEVICE].i = worker->device_idx;
        if (worker->worker_gid != MRD_NONE)
            rows->slots[F_WORKER_GID].i = worker->worker_gid;
        rows->slots[F_FIRST].i = any ? rows->seen[i].first.ns : 0;
        rows->slots[F_LAST].i = any ? rows->seen[i].last.ns : 0;
        err = mrd_rows_give(rows, MRD_ROWS_WORKERS);
    }
    return err;
}

static mrd_err
end_processes(mrd_rows *rows)
{
    mrd_err err = MRD_OK;

    for (mrd_proc_id id = 0; id < mrd_catalog_processes(rows->cat) && err == MRD_OK; id++) {
        const mrd_process *process = mrd_catalog_borrow_process(rows->cat, id);

        if (process->profile != rows->env->profile)
            continue;
        begin(rows);
        mrd_rows_identity(rows, id);
        rows->slots[F_CONTAINER_PID].i = process->container_pid;
        rows->slots[F_NAME].sid = process->name;
        rows->slots[F_POD].sid = process->pod;
        rows->slots[F_LABELS].sid = process->labels;
        rows->slots[F_WORLD].i = process->world_size;
        rows->slots[F_IS_NODE].i = (process->flags & MRD_PROC_NODE) != 0;
        rows->slots[F_SIMULATED].i = (process->flags & MRD_PROC_SIMULATED) != 0;
        err = mrd_rows_give(rows, MRD_ROWS_PROCESSES);
    }
    return err;
}

static mrd_err
end_tracks(mrd_rows *rows)
{
    mrd_err err = MRD_OK;

    for (mrd_track_id id = 0; id < rows->n_tracks && err == MRD_OK; id++) {
        if (mrd_catalog_profile_of(rows->cat, id) != rows->env->profile)
            continue;
        begin(rows);
        memcpy(rows->slots + F_TRACK, mrd_rows_track(rows, id),
               TRACK_FIELDS * sizeof(*rows->slots));
        rows->slots[F_TRACK_KIND].sid = rows_word(
            rows, mrd_catalog_borrow_track(rows->cat, id)->kind == MRD_TRACK_SPANS ? WORD_SPANS
                                                                                   : WORD_COUNTER);
        err = mrd_rows_give(rows, MRD_ROWS_TRACKS);
    }
    return err;
}

/* Emits a row for each capture of a device profile. Captures of several processes can form one
 * model's profile. */
static mrd_err
give_captures(mrd_rows *rows, unsigned profile)
{
    mrd_err err = MRD_OK;
    bool any = false;

    for (mrd_proc_id id = 0; id < mrd_catalog_processes(rows->cat) && err == MRD_OK; id++) {
        const mrd_process *process = mrd_catalog_borrow_process(rows->cat, id);

        if (process->profile != profile || (process->flags & MRD_PROC_NO_PID) != 0)
            continue;
        any = true;
        rows->slots[F_INSTANCE].sid = process->instance_id;
        rows->slots[F_PID].i = process->process_id;
        err = mrd_rows_give(rows, MRD_ROWS_DEVICE_PROFILES);
    }
    return any || err != MRD_OK ? err : mrd_rows_give(rows, MRD_ROWS_DEVICE_PROFILES);
}

static mrd_err
end_device_profiles(mrd_rows *rows)
{
    size_t n;
    const mrd_devprofile *devprofile = mrd_catalog_devprofiles(rows->cat, &n);
    mrd_err err = MRD_OK;

    for (size_t i = 1; i < n && err == MRD_OK; i++) {
        uint64_t id;

        begin(rows);
        rows->slots[F_MODEL_KEY].sid = devprofile[i].model;
        rows->slots[F_NAME].sid = devprofile[i].name;
        rows->slots[F_INSTANCE].sid = devprofile[i].instance_id;
        rows->slots[F_PID].i = devprofile[i].process_id;
        rows->slots[F_NC].i = devprofile[i].nc_idx;
        rows->slots[F_MODEL_SESSION].i = devprofile[i].session;
        rows->slots[F_ID].i = -1;
        if (mrd_num_digits(mrd_catalog_text(rows->cat, devprofile[i].model), &id) &&
            id <= INT64_MAX)
            rows->slots[F_ID].i = (int64_t) id;
        rows->slots[F_TOTAL_NS].i =
            devprofile[i].total_time_s > 0 && devprofile[i].total_time_s < 9e9
                ? (int64_t) (devprofile[i].total_time_s * 1e9)
                : 0;
        if ((err = mrd_rows_give(rows, MRD_ROWS_MODELS)) == MRD_OK)
            err = give_captures(rows, (unsigned) i);
    }
    return err;
}

static mrd_err
end_files(mrd_rows *rows)
{
    size_t n;
    const mrd_artifact *artifact = mrd_catalog_artifacts(rows->cat, &n);
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < n && err == MRD_OK; i++) {
        begin(rows);
        rows->slots[F_NAME].sid = artifact[i].kind;
        rows->slots[F_INSTANCE].sid = artifact[i].instance_id;
        rows->slots[F_PID].i = artifact[i].process_id;
        rows->slots[F_NC].i = artifact[i].nc_idx;
        rows->slots[F_MODEL_SESSION].i = -1;
        rows->slots[F_PATH].sid = artifact[i].path;
        rows->slots[F_BYTES].i = (int64_t) artifact[i].size;
        set_text(rows, F_SHA256, mrd_str_of(artifact[i].sha256));
        err = mrd_rows_give(rows, MRD_ROWS_MODELS);
        if (err != MRD_OK || !mrd_catalog_is_only_carried(rows->cat, &artifact[i]))
            continue;
        rows->slots[F_NAME].sid = artifact[i].profile;
        rows->slots[F_MODEL_SESSION].i = artifact[i].session;
        rows->slots[F_ID].i = -1;
        err = mrd_rows_give(rows, MRD_ROWS_DEVICE_PROFILES);
    }
    return err;
}

static mrd_err
end_clocks(mrd_rows *rows)
{
    size_t n;
    const mrd_clock_info *info = mrd_catalog_clocks(rows->cat, &n);
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < n && err == MRD_OK; i++) {
        begin(rows);
        rows->slots[F_CLOCK].i = (int64_t) i;
        rows->slots[F_NAME].sid = info[i].name;
        rows->slots[F_INSTANCE].sid = info[i].node;
        rows->slots[F_QUALITY].sid = info[i].quality;
        rows->slots[F_METHOD].sid = info[i].method;
        rows->slots[F_ESTIMATE].i = info[i].estimate_ns;
        rows->slots[F_BOUND].i = info[i].bound_ns;
        rows->slots[F_NOISE].i = info[i].noise_ns;
        rows->slots[F_EPOCHS].i = info[i].epochs;
        rows->slots[F_VIOLATIONS].i = (int64_t) info[i].violations;
        err = mrd_rows_give(rows, MRD_ROWS_CLOCKS);
    }
    return err;
}

static mrd_err
warn(mrd_rows *rows, mrd_str message, const char *category)
{
    begin(rows);
    set_text(rows, F_MESSAGE, message);
    set_text(rows, F_TEXT, mrd_str_of(category));
    return mrd_rows_give(rows, MRD_ROWS_WARNINGS);
}

static mrd_err
end_inputs(mrd_rows *rows)
{
    static const mrd_word states[] = { [MRD_INPUT_OK] = WORD_OK,
                                       [MRD_INPUT_INCOMPLETE] = WORD_INCOMPLETE,
                                       [MRD_INPUT_FAILED] = WORD_FAILED,
                                       [MRD_INPUT_SKIPPED] = WORD_SKIPPED };
    size_t n;
    const mrd_input *in = mrd_catalog_inputs(rows->cat, &n);
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < n && err == MRD_OK; i++) {
        begin(rows);
        rows->slots[F_PATH].sid = in[i].path;
        rows->slots[F_NAME].sid = in[i].format;
        rows->slots[F_STATE].sid = rows_word(rows, states[in[i].state & 3]);
        rows->slots[F_ERROR].sid = in[i].error;
        rows->slots[F_BYTES].i = (int64_t) in[i].bytes;
        rows->slots[F_RECORDS].i = (int64_t) in[i].records;
        rows->slots[F_EVENTS].i = (int64_t) in[i].events;
        rows->slots[F_UNFINISHED].i = (int64_t) in[i].unfinished;
        rows->slots[F_NO_START].i = (int64_t) in[i].no_start;
        rows->slots[F_DROPPED].i = (int64_t) in[i].dropped;
        rows->slots[F_LOST].i = (int64_t) in[i].lost;
        err = mrd_rows_give(rows, MRD_ROWS_INPUTS);
        if (err == MRD_OK && in[i].error != MRD_SID_EMPTY)
            err = warn(rows, mrd_catalog_text(rows->cat, in[i].error), "Missing Data");
    }
    return err;
}

static mrd_err
give_fact(mrd_rows *rows, mrd_str key, mrd_str value)
{
    begin(rows);
    set_text(rows, F_KEY, key);
    set_text(rows, F_TEXT, value);
    return mrd_rows_give(rows, MRD_ROWS_FACTS);
}

static mrd_err
end_facts(mrd_rows *rows)
{
    mrd_str key, value;
    char text[160];
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < mrd_catalog_facts(rows->cat) && err == MRD_OK; i++) {
        mrd_catalog_fact(rows->cat, i, &key, &value);
        err = give_fact(rows, key, value);
    }
    for (size_t i = 0; i < mrd_catalog_notes(rows->cat) && err == MRD_OK; i++) {
        if ((err = give_fact(rows, MRD_STR("note"), mrd_catalog_note_at(rows->cat, i))) == MRD_OK)
            err = warn(rows, mrd_catalog_note_at(rows->cat, i), "Note");
    }
    if (err == MRD_OK && rows->other_samples > 0) {
        snprintf(text, sizeof(text),
                 "%" PRIu64
                 " samples of counters that this schema has no table for are left out (they are in "
                 "Meridian's own tables)",
                 rows->other_samples);
        err = warn(rows, mrd_str_of(text), "Missing Data");
    }
    return err;
}

static void
time_text(mrd_rows *rows, mrd_ev_ns ns, char text[64])
{
    time_t seconds = (time_t) (ns.ns / MRD_SEC - (ns.ns % MRD_SEC < 0));
    struct tm when;
    char day[32];

    (void) rows;
    if (gmtime_r(&seconds, &when) == NULL ||
        strftime(day, sizeof(day), "%Y-%m-%d %H:%M:%S", &when) == 0)
        day[0] = '\0';
    snprintf(text, 64, "%s.%09" PRId64 " +0000 UTC", day,
             (int64_t) (ns.ns % MRD_SEC + (ns.ns % MRD_SEC < 0 ? MRD_SEC : 0)));
}

static mrd_err
end_metadata(mrd_rows *rows)
{
    char first[64], last[64], first_ns[24], last_ns[24];

    begin(rows);
    time_text(rows, rows->first, first);
    time_text(rows, rows->last, last);
    snprintf(first_ns, sizeof(first_ns), "%" PRId64, rows->first.ns);
    snprintf(last_ns, sizeof(last_ns), "%" PRId64, rows->last.ns);
    set_text(rows, F_FIRST_TEXT, mrd_str_of(first));
    set_text(rows, F_LAST_TEXT, mrd_str_of(last));
    set_text(rows, F_FIRST_NS_TEXT, mrd_str_of(first_ns));
    set_text(rows, F_LAST_NS_TEXT, mrd_str_of(last_ns));
    return rows->any ? mrd_rows_give(rows, MRD_ROWS_METADATA) : MRD_OK;
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
give_schema_field(mrd_rows *rows, const mrd_table_def *table, const mrd_column *column)
{
    begin(rows);
    set_text(rows, F_SCHEMA_TABLE, mrd_str_of(table->name));
    set_text(rows, F_SCHEMA_TABLE_WHAT, mrd_str_of(table->what));
    set_text(rows, F_SCHEMA_FIELD, mrd_str_of(column->name));
    set_text(rows, F_SCHEMA_FIELD_WHAT, mrd_str_of(column->what));
    set_text(rows, F_SCHEMA_TYPE, mrd_str_of(schema_type(column->type)));
    set_text(rows, F_SCHEMA_FORMAT, mrd_str_of(column->type == MRD_COL_I64 ? "int64" : ""));
    set_text(rows, F_SCHEMA_UNIT, mrd_str_of(column->unit));
    set_text(rows, F_SCHEMA_EXAMPLE, MRD_STR(""));
    set_text(rows, F_SCHEMA_VALUES, MRD_STR(""));
    rows->slots[F_SCHEMA_REQUIRED].i = !column->optional;
    rows->slots[F_SCHEMA_LEAST].d = rows->slots[F_SCHEMA_MOST].d = (double) NAN;
    return mrd_rows_give(rows, MRD_ROWS_SCHEMA);
}

static mrd_err
end_schema(mrd_rows *rows)
{
    mrd_err err = MRD_OK;

    if (rows->table_of[MRD_ROWS_SCHEMA] == NO_TABLE)
        return MRD_OK;
    for (size_t i = 0; i < rows->dialect->n; i++) {
        const mrd_table_def *table = &rows->dialect->tables[i];

        for (size_t c = 0; c < table->n && err == MRD_OK; c++)
            err = give_schema_field(rows, table, &table->columns[c]);
    }
    return err;
}

/* Returns the number of a worker in rows->workers. The report numbers only workers with device
 * spans, so its numbers differ. */
static int64_t
number_of(const mrd_rows *rows, const mrd_report_worker *worker)
{
    for (uint32_t i = 0; i < mrd_workers_count(rows->workers); i++) {
        const mrd_worker *v = mrd_workers_at(rows->workers, i);

        if (v->process == worker->process && v->lnc_idx == worker->lnc_idx &&
            v->device_idx == worker->device_idx && mrd_str_eq(v->ranks, worker->ranks))
            return i;
    }
    return -1;
}

static mrd_err
end_verdicts(mrd_rows *rows)
{
    static const mrd_word kinds[] = {
        [MRD_VERDICT_NOTHING] = WORD_NOTHING,     [MRD_VERDICT_NONE] = WORD_NONE,
        [MRD_VERDICT_STILL] = WORD_STILL,         [MRD_VERDICT_ABSENT] = WORD_ABSENT,
        [MRD_VERDICT_MORE_WORK] = WORD_MORE_WORK, [MRD_VERDICT_SOMETIMES] = WORD_SOMETIMES,
        [MRD_VERDICT_UNPROVEN] = WORD_UNPROVEN,   [MRD_VERDICT_LATE] = WORD_LATE
    };
    size_t n;
    const mrd_report_worker *worker;
    mrd_verdict verdict;
    uint64_t waits, window;
    mrd_err err = MRD_OK;

    if (rows->report == NULL)
        return MRD_OK;
    worker = mrd_report_workers(rows->report, &n);
    verdict = mrd_report_verdict(rows->report);
    waits = mrd_report_totals_of(rows->report)->wait_ns;
    window = mrd_report_totals_of(rows->report)->window_ns;
    for (size_t i = 0; i < n && err == MRD_OK; i++) {
        bool named = i == verdict.worker || verdict.kind < MRD_VERDICT_ABSENT;

        begin(rows);
        mrd_rows_identity(rows, worker[i].process);
        rows->slots[F_WORKER].i = number_of(rows, &worker[i]);
        rows->slots[F_LNC].i = worker[i].lnc_idx;
        rows->slots[F_DEVICE].i = worker[i].device_idx;
        rows->slots[F_FIRST].i = worker[i].first.ns;
        rows->slots[F_LAST].i = worker[i].last.ns;
        for (size_t k = 0; k < MRD_REPORT_PARTS && k <= F_PART_LAST - F_PART_FIRST; k++)
            rows->slots[F_PART_FIRST + k].i = (int64_t) worker[i].part_ns[k];
        rows->slots[F_TOOK_PART].i = (int64_t) worker[i].took_part;
        rows->slots[F_LAST_N].i = (int64_t) worker[i].came_last;
        rows->slots[F_PROVEN_N].i = (int64_t) worker[i].proven;
        rows->slots[F_ALONE_NS].i = (int64_t) worker[i].alone_ns;
        rows->slots[F_ALONE_WAIT_NS].i = (int64_t) worker[i].alone_wait_ns;
        rows->slots[F_CAUSED_NS].i = (int64_t) worker[i].caused_ns;
        rows->slots[F_PROVEN_NS].i = (int64_t) worker[i].proven_ns;
        rows->slots[F_WAIT_NS].i = (int64_t) worker[i].wait_ns;
        rows->slots[F_LOST].i = (int64_t) worker[i].lost;
        rows->slots[F_VERDICT].sid = rows_word(rows, named ? kinds[verdict.kind] : WORD_NONE);
        rows->slots[F_SHARE].d = waits == 0 ? 0 : (double) worker[i].caused_ns / (double) waits;
        rows->slots[F_IMPACT].d =
            window == 0 ? 0 : (double) worker[i].own_wait_ns / (double) window;
        err = mrd_rows_give(rows, MRD_ROWS_VERDICTS);
    }
    return err;
}

mrd_err
mrd_rows_finish(mrd_rows *rows)
{
    static mrd_err (*const tables[])(mrd_rows *) = {
        end_groups, end_workers, end_processes, end_tracks,   end_device_profiles, end_files,
        end_clocks, end_inputs,  end_facts,     end_metadata, end_schema,          end_verdicts,
    };
    mrd_err err;

    mrd_gather_finish(rows->gather);
    if (rows->err != MRD_OK)
        return rows->err;
    if ((err = mrd_rows_flush_memory(rows)) != MRD_OK ||
        (rows->hbm != NULL && (err = mrd_hbm_flush(rows->hbm)) != MRD_OK))
        return err;
    if (rows->report != NULL && (err = mrd_report_finish(rows->report)) != MRD_OK)
        return err;
    for (size_t i = 0; i < MRD_COUNT(tables) && err == MRD_OK; i++)
        err = tables[i](rows);
    return err != MRD_OK ? err : rows->err;
}
