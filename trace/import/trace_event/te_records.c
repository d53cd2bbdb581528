/* Converts each phase of a Trace Event record. */
#include "trace/import/trace_event/te_int.h"

#include <stdio.h>

#include "base/hash.h"
#include "base/num.h"
#include "base/obj.h"
#include "trace/model/arg_keys.h"

void
mrd_te_init(te *t, mrd_import *imp)
{
    *t = (te){ .imp = imp,
               .strings = mrd_catalog_strings(imp->catalog),
               .input = mrd_import_input(imp),
               .facts = { .rank = MRD_NONE, .world_size = MRD_NONE } };
    t->joiner.strings = t->strings;
    t->args = mrd_args_new(t->strings);
    t->key_name = mrd_strtab_addz(t->strings, "name");
    t->key_labels = mrd_strtab_addz(t->strings, "labels");
    t->key_sort = mrd_strtab_addz(t->strings, "sort_index");
    t->key_value = mrd_strtab_addz(t->strings, "value");
    t->key_device = mrd_arg_key_add(t->strings, MRD_KEY_DEVICE);
    t->key_stream = mrd_arg_key_add(t->strings, MRD_KEY_STREAM);
    t->key_rank = mrd_arg_key_add(t->strings, MRD_KEY_RANK);
    t->word_end = mrd_strtab_addz(t->strings, "(end without start)");
    mrd_te_lines_init(&t->lines, imp);
}

void
mrd_te_fini(te *t)
{
    mrd_te_lines_fini(&t->lines);
    mrd_store_free(t->later_store);
    mrd_joiner_fini(&t->joiner);
    mrd_map_fini(&t->arrows);
    mrd_args_free(t->args);
}

mrd_err
mrd_te_drop(te *t, const te_record *rec, const char *reason)
{
    t->input->records++;
    mrd_import_drop(t->imp, rec->offset, "%s", reason);
    return MRD_OK;
}

/* A full table is an error of the file. Out of memory is an error of ours. */
static mrd_err
te_no_line(te *t, const te_record *rec, mrd_err err)
{
    if (err != MRD_LIMIT)
        return err;
    return mrd_te_drop(t, rec, "more different pids, tids, counters or open spans than are kept");
}

static mrd_err
te_thread_line(te *t, const te_record *rec, uint32_t *ret_line)
{
    size_t at = ((uint64_t) rec->tid.number + rec->tid.word) % MRD_COUNT(t->met);
    uint32_t proc;
    mrd_err err;

    if (t->met[at].used && memcmp(&rec->pid, &t->met[at].pid, sizeof(te_id)) == 0 &&
        memcmp(&rec->tid, &t->met[at].tid, sizeof(te_id)) == 0) {
        *ret_line = t->met[at].line;
        return MRD_OK;
    }
    if ((err = mrd_te_proc_of(&t->lines, rec->pid, &proc)) != MRD_OK ||
        (err = mrd_te_thread_of(&t->lines, proc, rec->tid, ret_line)) != MRD_OK)
        return err;
    t->met[at].pid = rec->pid;
    t->met[at].tid = rec->tid;
    t->met[at].line = *ret_line;
    t->met[at].used = true;
    return MRD_OK;
}

static uint64_t
te_input_number(const te *t)
{
    return (uint64_t) t->imp->input + 1;
}

static uint64_t
te_flow_scope(const te *t, const te_record *rec)
{
    mrd_str c = mrd_strtab_get(t->strings, rec->cat), n = mrd_strtab_get(t->strings, rec->name);
    uint64_t scope = mrd_hash64(n.p, n.len, mrd_hash64(c.p, c.len, 0xf10));

    return rec->local_id ? mrd_hash64(&rec->pid, sizeof(rec->pid), scope) : scope;
}

static mrd_activity
te_activity(te *t, mrd_sid category)
{
    size_t at = category % MRD_COUNT(t->seen);

    if (category == MRD_SID_EMPTY)
        return MRD_ACTIVITY_UNKNOWN;
    if (t->seen[at].category != category) {
        t->seen[at].category = category;
        t->seen[at].is = mrd_activity_of(mrd_strtab_get(t->strings, category));
    }
    return t->seen[at].is;
}

static int64_t
te_arg_int(te *t, mrd_sid key)
{
    const mrd_arg *a = mrd_args_find(t->args, key);

    return a != NULL && a->type == MRD_ARG_INT ? a->v.i : MRD_NONE;
}

void
mrd_te_look(te *t, mrd_sid category, uint32_t line)
{
    mrd_activity where = te_activity(t, category);
    int64_t device = MRD_NONE, rank;

    if (where == MRD_ACTIVITY_UNKNOWN && (rank = te_arg_int(t, t->key_rank)) >= 0)
        mrd_te_saw_rank(&t->lines, line, rank);
    if (where == MRD_ACTIVITY_DEVICE || where == MRD_ACTIVITY_UNKNOWN)
        device = te_arg_int(t, t->key_device);
    if (where == MRD_ACTIVITY_UNKNOWN && device >= 0 && device != MRD_NONE &&
        te_arg_int(t, t->key_stream) != MRD_NONE)
        where = MRD_ACTIVITY_DEVICE;
    if (where != MRD_ACTIVITY_UNKNOWN)
        mrd_te_saw(&t->lines, line, where, device);
}

/* Fills an event from a record with its arguments. `flow` is memory for its bind_id arrow. */
static void
te_event(te *t, const te_record *rec, mrd_event_kind kind, uint32_t line, mrd_flow *flow,
         mrd_event *ev)
{
    size_t n_args;

    *ev = (mrd_event){ .ts = rec->ts,
                       .kind = (uint8_t) kind,
                       .track = line == TE_NONE ? 0 : mrd_te_track(&t->lines, line),
                       .name = rec->name,
                       .category = rec->cat,
                       .bound_ns = MRD_BOUND_LOCAL,
                       .id = rec->has_id ? rec->id : 0 };
    ev->args = mrd_args_view(t->args, &n_args);
    ev->arg_count = (uint32_t) n_args;
    if (ev->name == MRD_SID_EMPTY)
        ev->name = mrd_strtab_addz(t->strings, "(no name)");
    if (kind == MRD_SPAN && line != TE_NONE)
        mrd_te_look(t, rec->cat, line);
    if (rec->has_bind && (rec->flow_in || rec->flow_out)) {
        *flow = (mrd_flow){ .id = mrd_flow_id(te_input_number(t), 0xb1d, rec->bind_id),
                            .dir = rec->flow_in && rec->flow_out ? MRD_FLOW_STEP
                                   : rec->flow_in                ? MRD_FLOW_END
                                                                 : MRD_FLOW_START };
        ev->flows = flow;
        ev->flow_count = 1;
    }
}

static mrd_err
te_complete(te *t, const te_record *rec)
{
    mrd_event ev;
    mrd_flow flow;
    uint32_t line;
    mrd_err err;

    if (rec->has_dur && rec->dur < 0)
        return mrd_te_drop(t, rec, "a span with a negative duration");
    if ((err = te_thread_line(t, rec, &line)) != MRD_OK)
        return te_no_line(t, rec, err);
    te_event(t, rec, MRD_SPAN, line, &flow, &ev);
    ev.dur_ns = rec->has_dur ? rec->dur : MRD_DUR_UNFINISHED;
    t->input->records++;
    t->input->unfinished += !rec->has_dur;
    return mrd_te_put(t, &ev);
}

static mrd_err
te_instant(te *t, const te_record *rec)
{
    mrd_event ev;
    mrd_flow flow;
    uint32_t line;
    mrd_err err;

    if ((err = te_thread_line(t, rec, &line)) != MRD_OK)
        return te_no_line(t, rec, err);
    te_event(t, rec, MRD_INSTANT, line, &flow, &ev);
    t->input->records++;
    return mrd_te_put(t, &ev);
}

static mrd_err
te_flow_point(te *t, const te_record *rec)
{
    mrd_event ev;
    mrd_flow flow;
    uint32_t line;
    mrd_err err;

    if (!rec->has_id)
        return mrd_te_drop(t, rec, "a flow record without id");
    if ((err = te_thread_line(t, rec, &line)) != MRD_OK)
        return te_no_line(t, rec, err);
    te_event(t, rec, MRD_FLOW, line, &flow, &ev);
    ev.id = mrd_flow_id(te_input_number(t), te_flow_scope(t, rec), rec->id);
    ev.flow_dir = rec->ph == 's' ? MRD_FLOW_START : rec->ph == 't' ? MRD_FLOW_STEP : MRD_FLOW_END;
    ev.flow_count = 0;
    if (rec->ph == 'f' && !rec->enclosing)
        ev.flags |= MRD_EV_NEXT;
    t->input->records++;
    return mrd_te_put(t, &ev);
}

/* Keeps begins, ends and marks, which are paired at the end of the file (te_pairs.c). */
static mrd_err
te_begin_end(te *t, const te_record *rec)
{
    mrd_event ev;
    mrd_flow flow;
    uint32_t line;
    mrd_err err;

    if ((err = te_thread_line(t, rec, &line)) != MRD_OK)
        return te_no_line(t, rec, err);
    te_event(t, rec, MRD_INSTANT, TE_NONE, &flow, &ev);
    ev.name = rec->name;
    if (rec->ph == 'B')
        mrd_te_look(t, rec->cat, line);
    return mrd_te_later(t, &ev, rec->ph == 'B' ? TE_BEGIN : TE_END, line, TE_NONE);
}

static mrd_err
te_async_record(te *t, const te_record *rec)
{
    te_part part = rec->ph == 'b' || rec->ph == 'S'   ? TE_BEGIN
                   : rec->ph == 'e' || rec->ph == 'F' ? TE_END
                                                      : TE_MARK;
    uint32_t proc, owner;
    mrd_event ev;
    mrd_flow flow;
    mrd_err err = mrd_te_proc_of(&t->lines, rec->pid, &proc);

    if (err != MRD_OK)
        return te_no_line(t, rec, err);
    if (!rec->has_id)
        return mrd_te_drop(t, rec, "an async record without id");
    if ((err = mrd_te_owner_of(&t->lines, proc, rec->scope, rec->global_id, &owner)) != MRD_OK)
        return te_no_line(t, rec, err);
    te_event(t, rec, MRD_INSTANT, TE_NONE, &flow, &ev);
    ev.name = rec->name;
    return mrd_te_later(t, &ev, part, TE_NONE, owner);
}

/* Sets the counter's name: "name" for the only or the "value" argument, else "name key". The id is
 * appended if there is one. */
static mrd_err
te_counter_name(te *t, const te_record *rec, mrd_sid key, mrd_sid *ret_name)
{
    mrd_str name = mrd_strtab_get(t->strings, rec->name), k = mrd_strtab_get(t->strings, key);
    mrd_buf buf = { 0 };
    mrd_err err;

    if ((key == t->key_value || key == rec->name) && !rec->has_id) {
        *ret_name = rec->name;
        return MRD_OK;
    }
    mrd_buf_str(&buf, name);
    if (rec->has_id)
        mrd_buf_fmt(&buf, "[%llu]", (unsigned long long) rec->id);
    if (key != t->key_value && key != rec->name) {
        mrd_buf_byte(&buf, ' ');
        mrd_buf_str(&buf, k);
    }
    if ((err = buf.err) == MRD_OK)
        *ret_name = mrd_strtab_add(t->strings, (mrd_str){ (const char *) buf.p, buf.len });
    mrd_buf_fini(&buf);
    return err;
}

/* Accepts numbers, also in quotes. */
static bool
te_counter_value(te *t, const mrd_arg *a, mrd_event *ev)
{
    mrd_str text = { "", 0 };

    switch ((mrd_arg_type) a->type) {
    case MRD_ARG_INT:
    case MRD_ARG_UINT:
        ev->ivalue = a->v.i;
        ev->flags = a->type == MRD_ARG_UINT ? MRD_EV_INT | MRD_EV_UNSIGNED : MRD_EV_INT;
        return true;
    case MRD_ARG_BOOL:
        ev->ivalue = (int64_t) a->v.u;
        ev->flags = MRD_EV_INT;
        return true;
    case MRD_ARG_DOUBLE:
        ev->value = a->v.d;
        return true;
    case MRD_ARG_STR:
        text = mrd_strtab_get(t->strings, a->v.sid);
        break;
    case MRD_ARG_TEXT:
        text = (mrd_str){ a->v.text, a->len };
        break;
    case MRD_ARG_JSON:
        return false;
    }
    if (mrd_num_i64(text, &ev->ivalue) == MRD_OK) {
        ev->flags = MRD_EV_INT;
        return true;
    }
    return mrd_num_double(text, &ev->value) == MRD_OK;
}

static mrd_err
te_counter(te *t, const te_record *rec)
{
    size_t n;
    const mrd_arg *args = mrd_args_view(t->args, &n);
    uint32_t proc, line;
    mrd_sid name;
    mrd_err err = mrd_te_proc_of(&t->lines, rec->pid, &proc);

    if (err != MRD_OK)
        return te_no_line(t, rec, err);
    if (n == 0)
        return mrd_te_drop(t, rec, "a counter record without values");
    for (size_t i = 0; i < n; i++) {
        mrd_event ev = { .ts = rec->ts, .kind = MRD_COUNTER, .category = rec->cat };

        if (!te_counter_value(t, &args[i], &ev)) {
            mrd_te_drop(t, rec, "a counter value that is not a number");
            continue;
        }
        if ((err = te_counter_name(t, rec, args[i].key, &name)) == MRD_OK)
            err = mrd_te_named_line(&t->lines, TE_COUNTER, proc, name, 0, &line);
        if (err != MRD_OK) {
            if ((err = te_no_line(t, rec, err)) != MRD_OK)
                return err;
            continue;
        }
        ev.track = mrd_te_track(&t->lines, line);
        ev.name = t->lines.lines[line].name;
        t->input->records++;
        if ((err = mrd_te_put(t, &ev)) != MRD_OK)
            return err;
    }
    return MRD_OK;
}

/* ---- Metadata ---- */

static mrd_sid
te_arg_sid(te *t, mrd_sid key)
{
    const mrd_arg *a = mrd_args_find(t->args, key);

    if (a == NULL)
        return MRD_SID_EMPTY;
    if (a->type == MRD_ARG_STR)
        return a->v.sid;
    return a->type == MRD_ARG_TEXT ? mrd_strtab_add(t->strings, (mrd_str){ a->v.text, a->len })
                                   : MRD_SID_EMPTY;
}

void
mrd_te_keep_fact(te *t, mrd_str key, mrd_str value)
{
    char name[160], text[TE_FACT_BYTES];

    if (t->facts_kept == TE_FACTS_MAX || key.len == 0 || key.len > 100 || value.len >= sizeof(text))
        return;
    t->facts_kept++;
    snprintf(name, sizeof(name), "input.%u." MRD_STR_FMT, t->imp->input, MRD_STR_ARG(key));
    snprintf(text, sizeof(text), MRD_STR_FMT, MRD_STR_ARG(value));
    mrd_catalog_set(t->imp->catalog, name, text);
}

static mrd_err
te_metadata(te *t, const te_record *rec)
{
    mrd_str what = mrd_strtab_get(t->strings, rec->name);
    uint32_t proc, line;
    mrd_err err;

    if (mrd_str_starts(what, "thread_")) {
        if ((err = te_thread_line(t, rec, &line)) != MRD_OK)
            return err == MRD_LIMIT ? MRD_OK : err;
        if (mrd_str_is(what, "thread_name"))
            t->lines.lines[line].name = te_arg_sid(t, t->key_name);
        else if (mrd_str_is(what, "thread_sort_index"))
            t->lines.lines[line].sort_index = te_arg_int(t, t->key_sort);
        return MRD_OK;
    }
    if ((err = mrd_te_proc_of(&t->lines, rec->pid, &proc)) != MRD_OK)
        return err == MRD_LIMIT ? MRD_OK : err;
    if (mrd_str_is(what, "process_name"))
        t->lines.procs[proc].name = te_arg_sid(t, t->key_name);
    else if (mrd_str_is(what, "process_labels"))
        t->lines.procs[proc].labels = te_arg_sid(t, t->key_labels);
    else if (mrd_str_is(what, "process_sort_index"))
        t->lines.procs[proc].sort_index = te_arg_int(t, t->key_sort);
    else
        mrd_te_keep_fact(t, what, mrd_strtab_get(t->strings, te_arg_sid(t, t->key_name)));
    return MRD_OK;
}

static mrd_err
te_unsupported(te *t, const te_record *rec)
{
    size_t n = strlen(t->unsupported_phases);

    t->input->records++;
    t->input->dropped++;
    t->unsupported++;
    if (rec->ph > ' ' && rec->ph < 0x7f && strchr(t->unsupported_phases, rec->ph) == NULL &&
        n + 1 < sizeof(t->unsupported_phases))
        t->unsupported_phases[n] = rec->ph;
    return MRD_OK;
}

mrd_err
mrd_te_dispatch(te *t, te_record *rec)
{
    if (rec->ph == 'M')
        return te_metadata(t, rec);
    if (rec->ph == 0 && rec->bad == NULL)
        return mrd_te_drop(t, rec, "a record without phase (\"ph\")");
    if (rec->bad != NULL)
        return mrd_te_drop(t, rec, rec->bad);
    if (strchr("XBEiIRstfCbneSTpF", rec->ph) == NULL)
        return te_unsupported(t, rec);
    if (!rec->has_ts)
        return mrd_te_drop(t, rec, "an event without time (\"ts\")");
    t->absolute += rec->ts.ns >= 1000000000LL * MRD_SEC ? 1 : -1;
    switch (rec->ph) {
    case 'X':
        return te_complete(t, rec);
    case 'B':
    case 'E':
        return te_begin_end(t, rec);
    case 'C':
        return te_counter(t, rec);
    case 's':
    case 't':
    case 'f':
        return te_flow_point(t, rec);
    case 'i':
    case 'I':
    case 'R':
        return te_instant(t, rec);
    default:
        return te_async_record(t, rec);
    }
}
