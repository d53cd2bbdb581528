/*
 * trace/sink/report/sink_summary_text.c - writes summary.txt: the numbers of
 * trace/analysis/summary.h as text of at most 100 columns. Long lists are cut, and a line states how
 * many entries are missing. summary-json has all of them.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/loss_cause.h"
#include "base/num.h"
#include "base/plain.h"
#include "trace/analysis/summary.h"
#include "trace/json/catalog_json.h"
#include "trace/json/json_names.h"
#include "trace/sink/group.h"
#include "trace/sink/report/scope_memory_out.h"
#include "trace/sink/text.h"

#define TEXT_TYPES      25 /* maximum rows of event types of the whole profile */
#define TEXT_CORE_TYPES 6  /* maximum rows of event types of one process or core */
#define TEXT_ROWS       64 /* maximum rows of nodes and of cores */
#define TEXT_DETAILS    16 /* maximum number of cores for which event types are listed */
#define TEXT_SCOPES     24 /* maximum rows of scopes that used memory */
#define TEXT_LIST       12 /* maximum rows of inputs, counters, losses, artifacts, clocks, notes */

typedef struct {
    const mrd_sink_env *env;
    mrd_summary *sum;
    mrd_scope_memory *scopes;
    mrd_buf text;
} text_sink;

/* ---- Parts of text ---- */

/* ---- Sections ---- */

/* Returns how many records of incomplete inputs could not be read as events. */
static uint64_t
dropped_records(const mrd_catalog *cat)
{
    size_t n;
    const mrd_input *in = mrd_catalog_inputs(cat, &n);
    uint64_t dropped = 0;

    for (size_t i = 0; i < n; i++)
        dropped += in[i].state == MRD_INPUT_OK ? 0 : in[i].dropped;
    return dropped;
}

static void
put_lost(text_sink *sink, uint64_t lost, uint64_t dropped)
{
    uint64_t all = mrd_sat_count(lost, dropped);

    mrd_buf_fmt(&sink->text, "Lost       %" PRIu64 " event%s%s", all, mrd_plural(all),
                lost == 0 ? "" : " (see Losses)");
    if (dropped > 0)
        mrd_buf_fmt(&sink->text, "%s %" PRIu64 " record%s of inputs could not be read",
                    lost == 0 ? ":" : ", among them", dropped, mrd_plural(dropped));
    mrd_buf_byte(&sink->text, '\n');
}

static void
put_title(text_sink *sink)
{
    const mrd_summary_totals *totals = mrd_summary_totals_of(sink->sum);
    size_t nodes, processes;
    char from[MRD_TIME_TEXT], to[MRD_TIME_TEXT], dur[MRD_DUR_TEXT];
    bool any = !mrd_ev_after(totals->first, totals->last),
         wall = sink->env->options->wall_time && sink->env->profile == 0;

    mrd_summary_nodes(sink->sum, &nodes);
    mrd_summary_processes(sink->sum, &processes);
    mrd_buf_fmt(&sink->text, "Profile    %" PRIu64 " event%s of %zu process%s on %zu node%s\n",
                totals->events, mrd_plural(totals->events), processes, processes == 1 ? "" : "es",
                nodes, nodes == 1 ? "" : "s");
    if (mrd_catalog_simulated(sink->env->catalog))
        mrd_buf_text(
            &sink->text,
            "           SIMULATED: at least a part of these data was made without hardware\n");
    if (any) {
        mrd_buf_fmt(&sink->text, "Time       %s",
                    mrd_text_dur((uint64_t) totals->last.ns - (uint64_t) totals->first.ns, dur));
        if (wall)
            mrd_buf_fmt(&sink->text, ", %s to %s",
                        mrd_wall_text((mrd_wall_ns){ totals->first.ns }, from),
                        mrd_wall_text((mrd_wall_ns){ totals->last.ns }, to));
        mrd_buf_byte(&sink->text, '\n');
    }
    mrd_buf_fmt(&sink->text,
                "Kinds      %" PRIu64 " span%s, %" PRIu64 " instant%s, %" PRIu64
                " sample%s, %" PRIu64 " arrow point%s\n",
                totals->spans, mrd_plural(totals->spans), totals->instants,
                mrd_plural(totals->instants), totals->samples, mrd_plural(totals->samples),
                totals->flow_points, mrd_plural(totals->flow_points));
    if (totals->twice > 0)
        mrd_buf_fmt(&sink->text,
                    "Duplicates %" PRIu64
                    " calls are in the trace of the runtime and in that of the hooks;"
                    " below, each is counted once\n",
                    totals->twice);
    if (totals->pairs > 0)
        mrd_buf_fmt(&sink->text,
                    "Pairs      %" PRIu64
                    " execution%s ran on two physical cores, with a span of each;"
                    " below, each is counted once\n",
                    totals->pairs, mrd_plural(totals->pairs));
    if (totals->unfinished + totals->no_start + totals->mistimed > 0)
        mrd_buf_fmt(&sink->text,
                    "Incomplete %" PRIu64 " span%s without end, %" PRIu64 " without start, %" PRIu64
                    " with a wrong time (not counted in times)\n",
                    totals->unfinished, mrd_plural(totals->unfinished), totals->no_start,
                    totals->mistimed);
    put_lost(sink, totals->lost, dropped_records(sink->env->catalog));
}

static void
put_inputs(text_sink *sink)
{
    size_t n, bad = 0, shown = 0, listed = 0;
    const mrd_input *in = mrd_catalog_inputs(sink->env->catalog, &n);

    for (size_t i = 0; i < n; i++) {
        bad +=
            (in[i].state != MRD_INPUT_OK && in[i].state != MRD_INPUT_SKIPPED) || in[i].dropped > 0;
        listed += in[i].state != MRD_INPUT_OK || in[i].dropped > 0;
    }
    if (n == 0)
        return;
    mrd_buf_fmt(&sink->text, "Inputs     %zu, of which %zu incomplete\n", n, bad);
    for (size_t i = 0; i < n && shown < TEXT_LIST; i++) {
        mrd_buf line = { 0 };

        if (in[i].state == MRD_INPUT_OK && in[i].dropped == 0)
            continue;
        mrd_buf_fmt(&line, "%s: " MRD_STR_FMT, mrd_input_state_text(in[i].state),
                    MRD_STR_ARG(mrd_catalog_text(sink->env->catalog, in[i].path)));
        mrd_text_line(&sink->text, "  ", (mrd_str){ (const char *) line.p, line.len });
        line.len = 0; /* clears the buffer for the next text */
        if (in[i].dropped > 0)
            mrd_buf_fmt(&line, "%" PRIu64 " record%s dropped; ", in[i].dropped,
                        mrd_plural(in[i].dropped));
        if (in[i].skipped > 0)
            mrd_buf_fmt(&line, "%" PRIu64 " byte%s of text skipped; ", in[i].skipped,
                        mrd_plural(in[i].skipped));
        mrd_buf_str(&line, mrd_catalog_text(sink->env->catalog, in[i].error));
        mrd_text_line(&sink->text, "    ", (mrd_str){ (const char *) line.p, line.len });
        mrd_text_done(&line, &sink->text);
        shown++;
    }
    mrd_text_left_out(&sink->text, listed - shown, "incomplete or skipped inputs", "summary-json");
}

static void
put_type_head(mrd_buf *to, const char *title)
{
    mrd_buf_fmt(to, "%-30s %9s %9s %9s %9s %9s %9s %9s\n", title, "count", "total", "min", "mean",
                "p50", "p99", "max");
}

static void
put_type(text_sink *sink, const mrd_type *type)
{
    mrd_str name = mrd_catalog_text(sink->env->catalog, type->name);
    char d[6][MRD_DUR_TEXT];
    size_t width = 28;

    mrd_buf_text(&sink->text, "  ");
    if (mrd_text_columns(name) > width) { /* a long name gets a separate line */
        mrd_text_cell(&sink->text, name, MRD_TEXT_WIDTH - 2, false);
        mrd_buf_text(&sink->text, "\n  ");
        name = MRD_STR("");
    }
    mrd_text_cell(&sink->text, name, width, true);
    mrd_buf_fmt(&sink->text, " %9" PRIu64, type->count);
    if (type->hist.count > 0)
        mrd_buf_fmt(&sink->text, " %9s %9s %9s %9s %9s %9s", mrd_text_dur(type->total_ns, d[0]),
                    mrd_text_dur((uint64_t) type->min_ns, d[1]),
                    mrd_text_dur(type->total_ns / type->hist.count, d[2]),
                    mrd_text_dur((uint64_t) mrd_summary_quantile(type, 0.5), d[3]),
                    mrd_text_dur((uint64_t) mrd_summary_quantile(type, 0.99), d[4]),
                    mrd_text_dur((uint64_t) type->max_ns, d[5]));
    else
        mrd_buf_fmt(&sink->text, " %9s",
                    type->kind != MRD_SPAN ? "instant"
                    : type->unfinished > 0 ? "no end"
                                           : "no start");
    mrd_buf_byte(&sink->text, '\n');
}

static mrd_err
put_types(text_sink *sink, const mrd_summary_row *row, const char *title, size_t most)
{
    mrd_type *types;
    size_t n;
    mrd_err err = mrd_summary_types(sink->sum, row, &types, &n);

    if (err != MRD_OK)
        return err;
    if (n > 0)
        put_type_head(&sink->text, title);
    for (size_t i = 0; i < n && i < most; i++)
        put_type(sink, &types[i]);
    if (n > most)
        mrd_text_left_out(&sink->text, n - most, "event types", "summary-json");
    mrd_types_merged_free(types, n);
    return MRD_OK;
}

static uint64_t
window(const mrd_summary_row *row)
{
    return mrd_ev_after(row->first, row->last) ? 0
                                               : (uint64_t) row->last.ns - (uint64_t) row->first.ns;
}

static void
put_usage_head(mrd_buf *to, const char *title)
{
    mrd_buf_fmt(to, "%-38s %9s %9s %9s %7s %9s %6s %6s\n", title, "events", "window", "idle",
                "busy", "device", "cc_run", "lost");
}

/* Writes the usage of one row. Its label may be cut, but its numbers are never cut. */
static void
put_usage(text_sink *sink, mrd_str label, const mrd_summary_row *row)
{
    char d[3][MRD_DUR_TEXT], share[MRD_TEXT_SHARE];

    mrd_buf_text(&sink->text, "  ");
    mrd_text_cell(&sink->text, label, 36, true);
    mrd_buf_fmt(
        &sink->text, " %9" PRIu64 " %9s %9s %7s %9s %6" PRIu64 " %6" PRIu64 "\n", row->events,
        mrd_text_dur(window(row), d[0]), mrd_text_dur(mrd_summary_idle(row), d[1]),
        mrd_text_share(row->busy.ns, window(row), share),
        row->device.any ? mrd_text_dur(row->device.ns, d[2]) : "-", row->cc_running, row->lost);
}

static void
core_label(const mrd_summary_row *core, mrd_buf *to)
{
    if (core->lnc_idx == MRD_NONE)
        mrd_buf_text(to, "threads without a core");
    else
        mrd_buf_fmt(to, "NC %" PRId64, core->lnc_idx);
}

/* Writes the rows of a process's cores, and returns their number. A process with only one core gets
 * none, because that row would be the same as the process's row. */
static size_t
put_cores(text_sink *sink, const mrd_summary_row *cores, size_t n, size_t most)
{
    mrd_buf label = { 0 };
    size_t shown = 0;

    for (; shown < n && shown < most; shown++) {
        label.len = 0; /* clears the buffer for the next text */
        mrd_buf_text(&label, "    ");
        core_label(&cores[shown], &label);
        put_usage(sink, (mrd_str){ (const char *) label.p, label.len }, &cores[shown]);
    }
    mrd_text_done(&label, &sink->text);
    return shown;
}

static void
put_tree(text_sink *sink)
{
    size_t n_nodes, n_processes, n_cores, shown = 0, all, pos = 0, c = 0;
    const mrd_summary_row *nodes = mrd_summary_nodes(sink->sum, &n_nodes),
                          *processes = mrd_summary_processes(sink->sum, &n_processes),
                          *cores = mrd_summary_cores(sink->sum, &n_cores);
    mrd_buf label = { 0 };

    all = n_nodes + n_processes + n_cores;
    if (all == 0)
        return;
    put_usage_head(&sink->text, "Nodes, processes, cores");
    for (size_t i = 0; i < n_nodes && shown < TEXT_ROWS; i++) {
        put_usage(sink, mrd_catalog_text(sink->env->catalog, nodes[i].instance), &nodes[i]);
        shown++;
        for (; pos < n_processes && processes[pos].parent == i && shown < TEXT_ROWS; pos++) {
            size_t of = 0;

            label.len = 0; /* clears the buffer for the next text */
            mrd_buf_text(&label, "  ");
            mrd_text_process(sink->env->catalog, processes[pos].process, &label);
            put_usage(sink, (mrd_str){ (const char *) label.p, label.len }, &processes[pos]);
            shown++;
            while (c + of < n_cores && cores[c + of].parent == pos)
                of++;
            if (of == 1 && cores[c].lnc_idx == MRD_NONE)
                /* the row of a single core without a number would be the same as its process's
                 * row */
                all--;
            else
                shown += put_cores(sink, &cores[c], of, TEXT_ROWS - shown);
            c += of;
        }
    }
    mrd_text_left_out(&sink->text, all - shown, "nodes, processes and cores", "summary-json");
    mrd_text_done(&label, &sink->text);
}

static mrd_err
put_core_types(text_sink *sink)
{
    size_t n_processes, n, shown = 0, with_types = 0;
    const mrd_summary_row *processes = mrd_summary_processes(sink->sum, &n_processes),
                          *cores = mrd_summary_cores(sink->sum, &n);
    mrd_buf label = { 0 };
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < n; i++)
        with_types += mrd_summary_any_type(sink->sum, &cores[i]);
    if (with_types < 2)
        return MRD_OK; /* the table of the whole profile already shows these types */
    for (size_t i = 0; i < n && shown < TEXT_DETAILS && err == MRD_OK; i++) {
        const mrd_summary_row *process = &processes[cores[i].parent];

        if (!mrd_summary_any_type(sink->sum, &cores[i]))
            continue;
        label.len = 0; /* clears the buffer for the next text */
        mrd_text_node_process(sink->env->catalog, process->process, &label);
        mrd_buf_text(&label, " / ");
        core_label(&cores[i], &label);
        mrd_buf_byte(&sink->text, '\n');
        mrd_text_line(&sink->text, "", (mrd_str){ (const char *) label.p, label.len });
        err = put_types(sink, &cores[i], "", TEXT_CORE_TYPES);
        shown++;
    }
    mrd_text_left_out(&sink->text, with_types - shown, "cores", "summary-json");
    mrd_text_done(&label, &sink->text);
    return err;
}

static void
put_clocks(text_sink *sink)
{
    size_t count;
    const mrd_clock_info *info = mrd_catalog_clocks(sink->env->catalog, &count);

    if (count < 2) /* entry 0 is no clock: it stands for times that are not aligned */
        return;
    mrd_buf_text(&sink->text, "\nClocks (session - local)\n");
    for (size_t i = 1; i < count && i <= TEXT_LIST; i++) {
        char bound[MRD_DUR_TEXT] = "unknown";
        mrd_buf line = { 0 };

        if (info[i].bound_ns >= 0)
            mrd_dur_text(info[i].bound_ns, bound);
        mrd_buf_fmt(&line, MRD_STR_FMT ": %" PRId64 " ns, bound %s, " MRD_STR_FMT ", " MRD_STR_FMT,
                    MRD_STR_ARG(mrd_catalog_text(sink->env->catalog, info[i].name)),
                    info[i].estimate_ns, bound,
                    MRD_STR_ARG(mrd_catalog_text(sink->env->catalog, info[i].quality)),
                    MRD_STR_ARG(mrd_catalog_text(sink->env->catalog, info[i].method)));
        if (info[i].violations > 0)
            mrd_buf_fmt(&line, ", %" PRIu64 " VIOLATIONS", info[i].violations);
        mrd_text_line(&sink->text, "  ", (mrd_str){ (const char *) line.p, line.len });
        mrd_text_done(&line, &sink->text);
    }
    if (count - 1 > TEXT_LIST)
        mrd_text_left_out(&sink->text, count - 1 - TEXT_LIST, "clocks", "summary-json");
}

static void
put_counters(text_sink *sink)
{
    size_t n, used = 0, shown = 0;
    const mrd_summary_counter *counter = mrd_summary_counters(sink->sum, &n);

    for (size_t i = 0; i < n; i++)
        used += counter[i].count > 0 && !mrd_scope_memory_has(sink->scopes, counter[i].track);
    if (used == 0)
        return;
    mrd_buf_fmt(&sink->text, "\n%-52s %9s %11s %11s %11s\n", "Counters", "samples", "min", "mean",
                "max");
    for (size_t i = 0; i < n && shown < TEXT_LIST; i++) {
        const mrd_track *track = mrd_catalog_borrow_track(sink->env->catalog, counter[i].track);
        const mrd_process *process = mrd_catalog_borrow_process(sink->env->catalog, track->process);
        mrd_buf label = { 0 };

        if (counter[i].count == 0 || mrd_scope_memory_has(sink->scopes, counter[i].track))
            continue;
        mrd_buf_fmt(&label, MRD_STR_FMT " " MRD_STR_FMT,
                    MRD_STR_ARG(mrd_catalog_text(sink->env->catalog, process->instance_id)),
                    MRD_STR_ARG(mrd_catalog_text(sink->env->catalog, track->name)));
        if (track->lnc_idx != MRD_NONE)
            mrd_buf_fmt(&label, " NC %" PRId64, track->lnc_idx);
        if (track->device_idx != MRD_NONE)
            mrd_buf_fmt(&label, " device %" PRId64, track->device_idx);
        mrd_buf_text(&sink->text, "  ");
        mrd_text_cell(&sink->text, (mrd_str){ (const char *) label.p, label.len }, 50, true);
        mrd_buf_fmt(&sink->text, " %9" PRIu64 " %11.5g %11.5g %11.5g\n", counter[i].count,
                    counter[i].min, counter[i].sum / (double) counter[i].count, counter[i].max);
        mrd_text_done(&label, &sink->text);
        shown++;
    }
    mrd_text_left_out(&sink->text, used - shown, "counters", "summary-json");
}

static void
put_losses(text_sink *sink)
{
    size_t count;
    const mrd_summary_loss *loss = mrd_summary_losses(sink->sum, &count);
    const mrd_catalog *cat = sink->env->catalog;
    char dur[MRD_DUR_TEXT];

    if (count == 0)
        return;
    mrd_buf_text(&sink->text, "\nLosses\n");
    for (size_t i = 0; i < count && i < TEXT_LIST; i++) {
        const mrd_track *track = mrd_catalog_borrow_track(cat, loss[i].track);
        const mrd_process *process = mrd_catalog_borrow_process(cat, track->process);
        mrd_buf line = { 0 };

        if (mrd_drop_of(mrd_catalog_text(cat, loss[i].cause)) == MRD_DROP_PAUSED)
            mrd_buf_fmt(&line, "not recorded (paused): %s in %" PRIu64 " pause%s (" MRD_STR_FMT ")",
                        mrd_text_dur(loss[i].gaps_ns, dur), loss[i].records,
                        mrd_plural(loss[i].records),
                        MRD_STR_ARG(mrd_catalog_text(cat, process->instance_id)));
        else
            mrd_buf_fmt(&line,
                        "%" PRIu64 " event%s in %" PRIu64 " gap%s: " MRD_STR_FMT " (" MRD_STR_FMT
                        " pid %" PRId64 " " MRD_STR_FMT ")",
                        loss[i].lost, mrd_plural(loss[i].lost), loss[i].records,
                        mrd_plural(loss[i].records),
                        MRD_STR_ARG(mrd_catalog_text(cat, loss[i].cause)),
                        MRD_STR_ARG(mrd_catalog_text(cat, process->instance_id)),
                        process->process_id, MRD_STR_ARG(mrd_catalog_text(cat, track->name)));
        mrd_text_line(&sink->text, "  ", (mrd_str){ (const char *) line.p, line.len });
        mrd_text_done(&line, &sink->text);
    }
    if (count > TEXT_LIST)
        mrd_text_left_out(&sink->text, count - TEXT_LIST, "losses", "summary-json");
}

static void
put_artifacts(text_sink *sink)
{
    size_t n, open = 0, shown = 0;
    const mrd_artifact *artifact = mrd_catalog_artifacts(sink->env->catalog, &n);

    for (size_t i = 0; i < n; i++)
        open += artifact[i].decoded_by == MRD_SID_EMPTY;
    if (open == 0)
        return;
    mrd_buf_fmt(&sink->text, "\nCarried, not decoded (%zu)\n", open);
    for (size_t i = 0; i < n && shown < TEXT_LIST; i++) {
        mrd_buf line = { 0 };

        if (artifact[i].decoded_by != MRD_SID_EMPTY)
            continue;
        mrd_buf_fmt(&line, "%-9s %12" PRIu64 " bytes  %.12s  " MRD_STR_FMT,
                    mrd_catalog_text(sink->env->catalog, artifact[i].kind).p, artifact[i].size,
                    artifact[i].sha256[0] == '\0' ? "not hashed" : artifact[i].sha256,
                    MRD_STR_ARG(mrd_catalog_text(sink->env->catalog, artifact[i].path)));
        mrd_text_line(&sink->text, "  ", (mrd_str){ (const char *) line.p, line.len });
        mrd_text_done(&line, &sink->text);
        shown++;
    }
    mrd_text_left_out(&sink->text, open - shown, "artifacts", "summary-json");
}

/* Writes the notes. Names in them may have any length. Lines are broken at blanks, and no note is
 * cut. */
static void
put_notes(text_sink *sink)
{
    size_t n = mrd_catalog_notes(sink->env->catalog);

    if (n > 0)
        mrd_buf_text(&sink->text, "\nNotes\n");
    for (size_t i = 0; i < n; i++) {
        mrd_buf plain = { 0 };
        const char *indent = "  - ";
        mrd_str left;

        mrd_plain_text(&plain, mrd_catalog_note_at(sink->env->catalog, i));
        left = mrd_str_of(mrd_buf_cstr(&plain));

        while (left.len > 0) {
            size_t take = left.len;

            if (take > MRD_TEXT_WIDTH - 4) {
                take = MRD_TEXT_WIDTH - 4;
                while (take > 0 && left.p[take] != ' ')
                    take--;
                /* no blank to break at, so print the rest as one long line */
                if (take == 0)
                    take = left.len;
            }
            mrd_buf_text(&sink->text, indent);
            mrd_buf_str(&sink->text, (mrd_str){ left.p, take });
            mrd_buf_byte(&sink->text, '\n');
            take += take < left.len; /* skips the blank at the break */
            left = (mrd_str){ left.p + take, left.len - take };
            indent = "    ";
        }
        mrd_text_done(&plain, &sink->text);
    }
}

static mrd_err
put_all(text_sink *sink)
{
    mrd_err err;

    put_title(sink);
    put_inputs(sink);
    mrd_buf_byte(&sink->text, '\n');
    if ((err = put_types(sink, NULL, "Event types", TEXT_TYPES)) != MRD_OK)
        return err;
    mrd_buf_byte(&sink->text, '\n');
    put_tree(sink);
    if ((err = put_core_types(sink)) != MRD_OK)
        return err;
    put_counters(sink);
    mrd_scope_memory_text(sink->scopes, sink->env->catalog, TEXT_SCOPES, "summary-json",
                          &sink->text);
    put_losses(sink);
    put_clocks(sink);
    put_artifacts(sink);
    put_notes(sink);
    mrd_buf_fmt(&sink->text,
                "\nBusy is the union of spans, in the window from first to last event of the row;"
                "\np50 and p99 are within %.1f %% of the true value.\n",
                100 * MRD_HIST_ERROR);
    return sink->text.err;
}

static mrd_err
text_open(void *state, const mrd_sink_env *env, mrd_why *why)
{
    text_sink *sink = state;

    sink->env = env;
    sink->sum = mrd_summary_new(env);
    sink->scopes = mrd_scope_memory_new(env);
    if (sink->sum != NULL && sink->scopes != NULL)
        return MRD_OK;
    mrd_summary_free(sink->sum);
    mrd_scope_memory_free(sink->scopes);
    return mrd_why_set(why, MRD_NOMEM, 0, "summary");
}

static mrd_err
text_event(void *state, const mrd_event *ev)
{
    text_sink *sink = state;

    mrd_scope_memory_add(sink->scopes, ev);
    return mrd_summary_add(sink->sum, ev);
}

static mrd_err
text_close(void *state, mrd_why *why)
{
    text_sink *sink = state;
    mrd_err err = mrd_summary_finish(sink->sum);

    if (err == MRD_OK)
        err = put_all(sink);
    if (sink->text.len > 0)
        mrd_out_add(sink->env->out, sink->text.p, sink->text.len);
    mrd_buf_fini(&sink->text);
    mrd_summary_free(sink->sum);
    mrd_scope_memory_free(sink->scopes);
    return err == MRD_OK ? MRD_OK : mrd_why_set(why, err, 0, "summary: %s", mrd_err_text(err));
}

const mrd_sink_ops mrd_sink_summary_text = {
    .name = "summary-text",
    .stem = "summary",
    .suffix = ".txt",
    .media_type = "text/plain; charset=utf-8",
    .title = "Summary",
    .standard = true,
    .what = "the same for people",
    .state_size = sizeof(text_sink),
    .device_too = true,
    .lists_files = true,
    .open = text_open,
    .event = text_event,
    .close = text_close,
};
