/*
 * trace/sink/report/sink_summary_text.c - summary.txt: the numbers of trace/analysis/summary.h as text of
 * at most 100 columns. Long lists are cut, with a line about the rest; summary-json has everything.
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

#define TEXT_TYPES      25 /* event types of the whole profile */
#define TEXT_CORE_TYPES 6  /* of one process or core */
#define TEXT_ROWS       64 /* nodes, cores */
#define TEXT_DETAILS    16 /* cores with their event types */
#define TEXT_SCOPES     24 /* of memory */
#define TEXT_LIST       12 /* inputs, counters, losses, artifacts, clocks, notes */

typedef struct {
    const mrd_sink_env *env;
    mrd_summary *sum;
    mrd_scope_memory *scopes;
    mrd_buf text;
} text_sink;

/* ---- Parts of text ---- */

/* ---- Sections ---- */

/* Counts records of incomplete inputs that could not become events. */
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
put_lost(text_sink *s, uint64_t lost, uint64_t dropped)
{
    uint64_t all = mrd_sat_count(lost, dropped);

    mrd_buf_fmt(&s->text, "Lost       %" PRIu64 " event%s%s", all, mrd_plural(all),
                lost == 0 ? "" : " (see Losses)");
    if (dropped > 0)
        mrd_buf_fmt(&s->text, "%s %" PRIu64 " record%s of inputs could not be read",
                    lost == 0 ? ":" : ", among them", dropped, mrd_plural(dropped));
    mrd_buf_byte(&s->text, '\n');
}

static void
put_title(text_sink *s)
{
    const mrd_summary_totals *t = mrd_summary_totals_of(s->sum);
    size_t nodes, processes;
    char from[MRD_TIME_TEXT], to[MRD_TIME_TEXT], dur[MRD_DUR_TEXT];
    bool any = !mrd_ev_after(t->first, t->last),
         wall = s->env->options->wall_time && s->env->profile == 0;

    mrd_summary_nodes(s->sum, &nodes);
    mrd_summary_processes(s->sum, &processes);
    mrd_buf_fmt(&s->text, "Profile    %" PRIu64 " event%s of %zu process%s on %zu node%s\n",
                t->events, mrd_plural(t->events), processes, processes == 1 ? "" : "es", nodes,
                nodes == 1 ? "" : "s");
    if (mrd_catalog_simulated(s->env->catalog))
        mrd_buf_text(
            &s->text,
            "           SIMULATED: at least a part of these data was made without hardware\n");
    if (any) {
        mrd_buf_fmt(&s->text, "Time       %s",
                    mrd_text_dur((uint64_t) t->last.ns - (uint64_t) t->first.ns, dur));
        if (wall)
            mrd_buf_fmt(&s->text, ", %s to %s", mrd_wall_text((mrd_wall_ns){ t->first.ns }, from),
                        mrd_wall_text((mrd_wall_ns){ t->last.ns }, to));
        mrd_buf_byte(&s->text, '\n');
    }
    mrd_buf_fmt(&s->text,
                "Kinds      %" PRIu64 " span%s, %" PRIu64 " instant%s, %" PRIu64
                " sample%s, %" PRIu64 " arrow point%s\n",
                t->spans, mrd_plural(t->spans), t->instants, mrd_plural(t->instants), t->samples,
                mrd_plural(t->samples), t->flow_points, mrd_plural(t->flow_points));
    if (t->twice > 0)
        mrd_buf_fmt(&s->text,
                    "Duplicates %" PRIu64
                    " calls are in the trace of the runtime and in that of the hooks;"
                    " below, each is counted once\n",
                    t->twice);
    if (t->pairs > 0)
        mrd_buf_fmt(&s->text,
                    "Pairs      %" PRIu64
                    " execution%s ran on two physical cores, with a span of each;"
                    " below, each is counted once\n",
                    t->pairs, mrd_plural(t->pairs));
    if (t->unfinished + t->no_start + t->mistimed > 0)
        mrd_buf_fmt(&s->text,
                    "Incomplete %" PRIu64 " span%s without end, %" PRIu64 " without start, %" PRIu64
                    " with a wrong time (not counted in times)\n",
                    t->unfinished, mrd_plural(t->unfinished), t->no_start, t->mistimed);
    put_lost(s, t->lost, dropped_records(s->env->catalog));
}

static void
put_inputs(text_sink *s)
{
    size_t n, bad = 0, shown = 0;
    const mrd_input *in = mrd_catalog_inputs(s->env->catalog, &n);

    for (size_t i = 0; i < n; i++)
        bad +=
            (in[i].state != MRD_INPUT_OK && in[i].state != MRD_INPUT_SKIPPED) || in[i].dropped > 0;
    if (n == 0)
        return;
    mrd_buf_fmt(&s->text, "Inputs     %zu, of which %zu incomplete\n", n, bad);
    for (size_t i = 0; i < n && shown < TEXT_LIST; i++) {
        mrd_buf line = { 0 };

        if (in[i].state == MRD_INPUT_OK && in[i].dropped == 0)
            continue;
        mrd_buf_fmt(&line, "%s: " MRD_STR_FMT, mrd_input_state_text(in[i].state),
                    MRD_STR_ARG(mrd_catalog_text(s->env->catalog, in[i].path)));
        mrd_text_line(&s->text, "  ", (mrd_str){ (const char *) line.p, line.len });
        line.len = 0; /* drop the text of the failure */
        if (in[i].dropped > 0)
            mrd_buf_fmt(&line, "%" PRIu64 " record%s dropped; ", in[i].dropped,
                        mrd_plural(in[i].dropped));
        if (in[i].skipped > 0)
            mrd_buf_fmt(&line, "%" PRIu64 " byte%s of text skipped; ", in[i].skipped,
                        mrd_plural(in[i].skipped));
        mrd_buf_str(&line, mrd_catalog_text(s->env->catalog, in[i].error));
        mrd_text_line(&s->text, "    ", (mrd_str){ (const char *) line.p, line.len });
        mrd_text_done(&line, &s->text);
        shown++;
    }
    mrd_text_left_out(&s->text, bad - shown, "incomplete inputs", "summary-json");
}

static void
put_type_head(mrd_buf *to, const char *title)
{
    mrd_buf_fmt(to, "%-30s %9s %9s %9s %9s %9s %9s %9s\n", title, "count", "total", "min", "mean",
                "p50", "p99", "max");
}

static void
put_type(text_sink *s, const mrd_type *t)
{
    mrd_str name = mrd_catalog_text(s->env->catalog, t->name);
    char d[6][MRD_DUR_TEXT];
    size_t width = 28;

    mrd_buf_text(&s->text, "  ");
    if (mrd_text_columns(name) > width) { /* on a separate line */
        mrd_text_cell(&s->text, name, MRD_TEXT_WIDTH - 2, false);
        mrd_buf_text(&s->text, "\n  ");
        name = MRD_STR("");
    }
    mrd_text_cell(&s->text, name, width, true);
    mrd_buf_fmt(&s->text, " %9" PRIu64, t->count);
    if (t->hist.count > 0)
        mrd_buf_fmt(&s->text, " %9s %9s %9s %9s %9s %9s", mrd_text_dur(t->total_ns, d[0]),
                    mrd_text_dur((uint64_t) t->min_ns, d[1]),
                    mrd_text_dur(t->total_ns / t->hist.count, d[2]),
                    mrd_text_dur((uint64_t) mrd_summary_quantile(t, 0.5), d[3]),
                    mrd_text_dur((uint64_t) mrd_summary_quantile(t, 0.99), d[4]),
                    mrd_text_dur((uint64_t) t->max_ns, d[5]));
    else
        mrd_buf_fmt(&s->text, " %9s",
                    t->kind != MRD_SPAN ? "instant"
                    : t->unfinished > 0 ? "no end"
                                        : "no start");
    mrd_buf_byte(&s->text, '\n');
}

static mrd_err
put_types(text_sink *s, const mrd_summary_row *row, const char *title, size_t most)
{
    mrd_type *types;
    size_t n;
    mrd_err err = mrd_summary_types(s->sum, row, &types, &n);

    if (err != MRD_OK)
        return err;
    if (n > 0)
        put_type_head(&s->text, title);
    for (size_t i = 0; i < n && i < most; i++)
        put_type(s, &types[i]);
    if (n > most)
        mrd_text_left_out(&s->text, n - most, "event types", "summary-json");
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

/* Writes one line. The label may be cut, the numbers are not. */
static void
put_usage(text_sink *s, mrd_str label, const mrd_summary_row *row)
{
    char d[3][MRD_DUR_TEXT], share[MRD_TEXT_SHARE];

    mrd_buf_text(&s->text, "  ");
    mrd_text_cell(&s->text, label, 36, true);
    mrd_buf_fmt(&s->text, " %9" PRIu64 " %9s %9s %7s %9s %6" PRIu64 " %6" PRIu64 "\n", row->events,
                mrd_text_dur(window(row), d[0]), mrd_text_dur(mrd_summary_idle(row), d[1]),
                mrd_text_share(row->busy.ns, window(row), share),
                row->device.any ? mrd_text_dur(row->device.ns, d[2]) : "-", row->cc_running,
                row->lost);
}

static void
core_label(const mrd_summary_row *core, mrd_buf *to)
{
    if (core->lnc_idx == MRD_NONE)
        mrd_buf_text(to, "threads without a core");
    else
        mrd_buf_fmt(to, "NC %" PRId64, core->lnc_idx);
}

/* Writes the cores of a process, except a single one that would only repeat it. Returns the number
 * of rows. */
static size_t
put_cores(text_sink *s, const mrd_summary_row *cores, size_t n, size_t most)
{
    mrd_buf label = { 0 };
    size_t shown = 0;

    for (; shown < n && shown < most; shown++) {
        label.len = 0; /* drop the text of the failure */
        mrd_buf_text(&label, "    ");
        core_label(&cores[shown], &label);
        put_usage(s, (mrd_str){ (const char *) label.p, label.len }, &cores[shown]);
    }
    mrd_text_done(&label, &s->text);
    return shown;
}

static void
put_tree(text_sink *s)
{
    size_t n_nodes, n_processes, n_cores, shown = 0, all, p = 0, c = 0;
    const mrd_summary_row *nodes = mrd_summary_nodes(s->sum, &n_nodes),
                          *processes = mrd_summary_processes(s->sum, &n_processes),
                          *cores = mrd_summary_cores(s->sum, &n_cores);
    mrd_buf label = { 0 };

    all = n_nodes + n_processes + n_cores;
    if (all == 0)
        return;
    put_usage_head(&s->text, "Nodes, processes, cores");
    for (size_t i = 0; i < n_nodes && shown < TEXT_ROWS; i++) {
        put_usage(s, mrd_catalog_text(s->env->catalog, nodes[i].instance), &nodes[i]);
        shown++;
        for (; p < n_processes && processes[p].parent == i && shown < TEXT_ROWS; p++) {
            size_t of = 0;

            label.len = 0; /* drop the text of the failure */
            mrd_buf_text(&label, "  ");
            mrd_text_process(s->env->catalog, processes[p].process, &label);
            put_usage(s, (mrd_str){ (const char *) label.p, label.len }, &processes[p]);
            shown++;
            while (c + of < n_cores && cores[c + of].parent == p)
                of++;
            if (of == 1 && cores[c].lnc_idx == MRD_NONE)
                all--; /* it would repeat its process */
            else
                shown += put_cores(s, &cores[c], of, TEXT_ROWS - shown);
            c += of;
        }
    }
    mrd_text_left_out(&s->text, all - shown, "nodes, processes and cores", "summary-json");
    mrd_text_done(&label, &s->text);
}

static mrd_err
put_core_types(text_sink *s)
{
    size_t n_processes, n, shown = 0, with_types = 0;
    const mrd_summary_row *processes = mrd_summary_processes(s->sum, &n_processes),
                          *cores = mrd_summary_cores(s->sum, &n);
    mrd_buf label = { 0 };
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < n; i++)
        with_types += mrd_summary_any_type(s->sum, &cores[i]);
    if (with_types < 2)
        return MRD_OK; /* the table of the whole profile has it already */
    for (size_t i = 0; i < n && shown < TEXT_DETAILS && err == MRD_OK; i++) {
        const mrd_summary_row *process = &processes[cores[i].parent];
        const mrd_process *p = mrd_catalog_borrow_process(s->env->catalog, process->process);

        if (!mrd_summary_any_type(s->sum, &cores[i]))
            continue;
        label.len = 0; /* drop the text of the failure */
        mrd_buf_fmt(&label, MRD_STR_FMT " / ",
                    MRD_STR_ARG(mrd_catalog_text(s->env->catalog, p->instance_id)));
        mrd_text_process(s->env->catalog, process->process, &label);
        mrd_buf_text(&label, " / ");
        core_label(&cores[i], &label);
        mrd_buf_byte(&s->text, '\n');
        mrd_text_line(&s->text, "", (mrd_str){ (const char *) label.p, label.len });
        err = put_types(s, &cores[i], "", TEXT_CORE_TYPES);
        shown++;
    }
    mrd_text_left_out(&s->text, with_types - shown, "cores", "summary-json");
    mrd_text_done(&label, &s->text);
    return err;
}

static void
put_clocks(text_sink *s)
{
    size_t n;
    const mrd_clock_info *c = mrd_catalog_clocks(s->env->catalog, &n);

    if (n < 2) /* the first clock is "unaligned" */
        return;
    mrd_buf_text(&s->text, "\nClocks (session - local)\n");
    for (size_t i = 1; i < n && i <= TEXT_LIST; i++) {
        char bound[MRD_DUR_TEXT] = "unknown";
        mrd_buf line = { 0 };

        if (c[i].bound_ns >= 0)
            mrd_dur_text(c[i].bound_ns, bound);
        mrd_buf_fmt(&line, MRD_STR_FMT ": %" PRId64 " ns, bound %s, " MRD_STR_FMT ", " MRD_STR_FMT,
                    MRD_STR_ARG(mrd_catalog_text(s->env->catalog, c[i].name)), c[i].estimate_ns,
                    bound, MRD_STR_ARG(mrd_catalog_text(s->env->catalog, c[i].quality)),
                    MRD_STR_ARG(mrd_catalog_text(s->env->catalog, c[i].method)));
        if (c[i].violations > 0)
            mrd_buf_fmt(&line, ", %" PRIu64 " VIOLATIONS", c[i].violations);
        mrd_text_line(&s->text, "  ", (mrd_str){ (const char *) line.p, line.len });
        mrd_text_done(&line, &s->text);
    }
    if (n - 1 > TEXT_LIST)
        mrd_text_left_out(&s->text, n - 1 - TEXT_LIST, "clocks", "summary-json");
}

static void
put_counters(text_sink *s)
{
    size_t n, used = 0, shown = 0;
    const mrd_summary_counter *c = mrd_summary_counters(s->sum, &n);

    for (size_t i = 0; i < n; i++)
        used += c[i].count > 0 && !mrd_scope_memory_has(s->scopes, c[i].track);
    if (used == 0)
        return;
    mrd_buf_fmt(&s->text, "\n%-52s %9s %11s %11s %11s\n", "Counters", "samples", "min", "mean",
                "max");
    for (size_t i = 0; i < n && shown < TEXT_LIST; i++) {
        const mrd_track *t = mrd_catalog_borrow_track(s->env->catalog, c[i].track);
        const mrd_process *p = mrd_catalog_borrow_process(s->env->catalog, t->process);
        mrd_buf label = { 0 };

        if (c[i].count == 0 || mrd_scope_memory_has(s->scopes, c[i].track))
            continue;
        mrd_buf_fmt(&label, MRD_STR_FMT " " MRD_STR_FMT,
                    MRD_STR_ARG(mrd_catalog_text(s->env->catalog, p->instance_id)),
                    MRD_STR_ARG(mrd_catalog_text(s->env->catalog, t->name)));
        if (t->lnc_idx != MRD_NONE)
            mrd_buf_fmt(&label, " NC %" PRId64, t->lnc_idx);
        if (t->device_idx != MRD_NONE)
            mrd_buf_fmt(&label, " device %" PRId64, t->device_idx);
        mrd_buf_text(&s->text, "  ");
        mrd_text_cell(&s->text, (mrd_str){ (const char *) label.p, label.len }, 50, true);
        mrd_buf_fmt(&s->text, " %9" PRIu64 " %11.5g %11.5g %11.5g\n", c[i].count, c[i].min,
                    c[i].sum / (double) c[i].count, c[i].max);
        mrd_text_done(&label, &s->text);
        shown++;
    }
    mrd_text_left_out(&s->text, used - shown, "counters", "summary-json");
}

static void
put_losses(text_sink *s)
{
    size_t n;
    const mrd_summary_loss *l = mrd_summary_losses(s->sum, &n);
    const mrd_catalog *cat = s->env->catalog;
    char dur[MRD_DUR_TEXT];

    if (n == 0)
        return;
    mrd_buf_text(&s->text, "\nLosses\n");
    for (size_t i = 0; i < n && i < TEXT_LIST; i++) {
        const mrd_track *t = mrd_catalog_borrow_track(cat, l[i].track);
        const mrd_process *p = mrd_catalog_borrow_process(cat, t->process);
        mrd_buf line = { 0 };

        if (mrd_drop_of(mrd_catalog_text(cat, l[i].cause)) == MRD_DROP_PAUSED)
            mrd_buf_fmt(&line, "not recorded (paused): %s in %" PRIu64 " pause%s (" MRD_STR_FMT ")",
                        mrd_text_dur(l[i].gaps_ns, dur), l[i].records, mrd_plural(l[i].records),
                        MRD_STR_ARG(mrd_catalog_text(cat, p->instance_id)));
        else
            mrd_buf_fmt(&line,
                        "%" PRIu64 " event%s in %" PRIu64 " gap%s: " MRD_STR_FMT " (" MRD_STR_FMT
                        " pid %" PRId64 " " MRD_STR_FMT ")",
                        l[i].lost, mrd_plural(l[i].lost), l[i].records, mrd_plural(l[i].records),
                        MRD_STR_ARG(mrd_catalog_text(cat, l[i].cause)),
                        MRD_STR_ARG(mrd_catalog_text(cat, p->instance_id)), p->process_id,
                        MRD_STR_ARG(mrd_catalog_text(cat, t->name)));
        mrd_text_line(&s->text, "  ", (mrd_str){ (const char *) line.p, line.len });
        mrd_text_done(&line, &s->text);
    }
    if (n > TEXT_LIST)
        mrd_text_left_out(&s->text, n - TEXT_LIST, "losses", "summary-json");
}

static void
put_artifacts(text_sink *s)
{
    size_t n, open = 0, shown = 0;
    const mrd_artifact *a = mrd_catalog_artifacts(s->env->catalog, &n);

    for (size_t i = 0; i < n; i++)
        open += a[i].decoded_by == MRD_SID_EMPTY;
    if (open == 0)
        return;
    mrd_buf_fmt(&s->text, "\nCarried, not decoded (%zu)\n", open);
    for (size_t i = 0; i < n && shown < TEXT_LIST; i++) {
        mrd_buf line = { 0 };

        if (a[i].decoded_by != MRD_SID_EMPTY)
            continue;
        mrd_buf_fmt(&line, "%-9s %12" PRIu64 " bytes  %.12s  " MRD_STR_FMT,
                    mrd_catalog_text(s->env->catalog, a[i].kind).p, a[i].size,
                    a[i].sha256[0] == '\0' ? "not hashed" : a[i].sha256,
                    MRD_STR_ARG(mrd_catalog_text(s->env->catalog, a[i].path)));
        mrd_text_line(&s->text, "  ", (mrd_str){ (const char *) line.p, line.len });
        mrd_text_done(&line, &s->text);
        shown++;
    }
    mrd_text_left_out(&s->text, open - shown, "artifacts", "summary-json");
}

/* Writes notes, which may have names in them. They are broken at blanks, never cut. */
static void
put_notes(text_sink *s)
{
    size_t n = mrd_catalog_notes(s->env->catalog);

    if (n > 0)
        mrd_buf_text(&s->text, "\nNotes\n");
    for (size_t i = 0; i < n; i++) {
        mrd_buf plain = { 0 };
        const char *indent = "  - ";
        mrd_str left;

        mrd_plain_text(&plain, mrd_catalog_note_at(s->env->catalog, i));
        left = mrd_str_of(mrd_buf_cstr(&plain));

        while (left.len > 0) {
            size_t take = left.len;

            if (take > MRD_TEXT_WIDTH - 4) {
                take = MRD_TEXT_WIDTH - 4;
                while (take > 0 && left.p[take] != ' ')
                    take--;
                if (take == 0) /* a single long word */
                    take = left.len;
            }
            mrd_buf_text(&s->text, indent);
            mrd_buf_str(&s->text, (mrd_str){ left.p, take });
            mrd_buf_byte(&s->text, '\n');
            take += take < left.len; /* skip the blank */
            left = (mrd_str){ left.p + take, left.len - take };
            indent = "    ";
        }
        mrd_text_done(&plain, &s->text);
    }
}

static mrd_err
put_all(text_sink *s)
{
    mrd_err err;

    put_title(s);
    put_inputs(s);
    mrd_buf_byte(&s->text, '\n');
    if ((err = put_types(s, NULL, "Event types", TEXT_TYPES)) != MRD_OK)
        return err;
    mrd_buf_byte(&s->text, '\n');
    put_tree(s);
    if ((err = put_core_types(s)) != MRD_OK)
        return err;
    put_counters(s);
    mrd_scope_memory_text(s->scopes, s->env->catalog, TEXT_SCOPES, "summary-json", &s->text);
    put_losses(s);
    put_clocks(s);
    put_artifacts(s);
    put_notes(s);
    mrd_buf_fmt(&s->text,
                "\nBusy is the union of spans, in the window from first to last event of the row;"
                "\np50 and p99 are within %.1f %% of the true value.\n",
                100 * MRD_HIST_ERROR);
    return s->text.err;
}

static mrd_err
text_open(void *state, const mrd_sink_env *env, mrd_why *why)
{
    text_sink *s = state;

    s->env = env;
    s->sum = mrd_summary_new(env);
    s->scopes = mrd_scope_memory_new(env);
    if (s->sum != NULL && s->scopes != NULL)
        return MRD_OK;
    mrd_summary_free(s->sum);
    mrd_scope_memory_free(s->scopes);
    return mrd_why_set(why, MRD_NOMEM, 0, "summary");
}

static mrd_err
text_event(void *state, const mrd_event *ev)
{
    text_sink *s = state;

    mrd_scope_memory_add(s->scopes, ev);
    return mrd_summary_add(s->sum, ev);
}

static mrd_err
text_close(void *state, mrd_why *why)
{
    text_sink *s = state;
    mrd_err err = mrd_summary_finish(s->sum);

    if (err == MRD_OK)
        err = put_all(s);
    if (s->text.len > 0)
        mrd_out_add(s->env->out, s->text.p, s->text.len);
    mrd_buf_fini(&s->text);
    mrd_summary_free(s->sum);
    mrd_scope_memory_free(s->scopes);
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
