/* trace/import/trace_event/te_records.c - converts a record of Trace Event JSON to events. Each
 * phase ("ph") has its own function. */
#include "trace/import/trace_event/te_int.h"

#include <stdio.h>

#include "base/hash.h"
#include "base/num.h"
#include "base/obj.h"
#include "trace/model/arg_keys.h"

void
mrd_te_init(te *import, mrd_import *imp)
{
    *import = (te){ .imp = imp,
                    .strings = mrd_catalog_strings(imp->catalog),
                    .input = mrd_import_input(imp),
                    .facts = { .rank = MRD_NONE, .world_size = MRD_NONE, .groups = MRD_NONE } };
    import->joiner.strings = import->strings;
    import->args = mrd_args_new(import->strings);
    import->key_name = mrd_strtab_addz(import->strings, "name");
    import->key_labels = mrd_strtab_addz(import->strings, "labels");
    import->key_sort = mrd_strtab_addz(import->strings, "sort_index");
    import->key_value = mrd_strtab_addz(import->strings, "value");
    import->key_device = mrd_arg_key_add(import->strings, MRD_KEY_DEVICE);
    import->key_stream = mrd_arg_key_add(import->strings, MRD_KEY_STREAM);
    import->key_rank = mrd_arg_key_add(import->strings, MRD_KEY_RANK);
    import->word_end = mrd_strtab_addz(import->strings, "(end without start)");
    mrd_te_lines_init(&import->lines, imp);
}

void
mrd_te_fini(te *import)
{
    mrd_te_lines_fini(&import->lines);
    mrd_store_free(import->later_store);
    mrd_joiner_fini(&import->joiner);
    mrd_map_fini(&import->arrows);
    mrd_args_free(import->args);
}

mrd_err
mrd_te_drop(te *import, const te_record *rec, const char *reason)
{
    import->input->records++;
    mrd_import_drop(import->imp, rec->offset, "%s", reason);
    return MRD_OK;
}

/* Handles an error in finding a te_line. LIMIT (the table of lines is full) only drops the record.
 * Other errors are returned. */
static mrd_err
te_no_line(te *import, const te_record *rec, mrd_err err)
{
    if (err != MRD_LIMIT)
        return err;
    return mrd_te_drop(import, rec,
                       "more different pids, tids, counters or open spans than are kept");
}

static mrd_err
te_thread_line(te *import, const te_record *rec, uint32_t *ret_line)
{
    size_t at = ((uint64_t) rec->tid.number + rec->tid.word) % MRD_COUNT(import->met);
    uint32_t proc;
    mrd_err err;

    if (import->met[at].used && memcmp(&rec->pid, &import->met[at].pid, sizeof(te_id)) == 0 &&
        memcmp(&rec->tid, &import->met[at].tid, sizeof(te_id)) == 0) {
        *ret_line = import->met[at].line;
        return MRD_OK;
    }
    if ((err = mrd_te_proc_of(&import->lines, rec->pid, &proc)) != MRD_OK ||
        (err = mrd_te_thread_of(&import->lines, proc, rec->tid, ret_line)) != MRD_OK)
        return err;
    import->met[at].pid = rec->pid;
    import->met[at].tid = rec->tid;
    import->met[at].line = *ret_line;
    import->met[at].used = true;
    return MRD_OK;
}

static uint64_t
te_input_number(const te *import)
{
    return (uint64_t) import->imp->input + 1;
}

static uint64_t
te_flow_scope(const te *import, const te_record *rec)
{
    mrd_str str = mrd_strtab_get(import->strings, rec->cat),
            n = mrd_strtab_get(import->strings, rec->name);
    uint64_t scope = mrd_hash64(n.p, n.len, mrd_hash64(str.p, str.len, 0xf10));

    return rec->local_id ? mrd_hash64(&rec->pid, sizeof(rec->pid), scope) : scope;
}

static mrd_activity
te_activity(te *import, mrd_sid category)
{
    size_t at = category % MRD_COUNT(import->seen);

    if (category == MRD_SID_EMPTY)
        return MRD_ACTIVITY_UNKNOWN;
    if (import->seen[at].category != category) {
        import->seen[at].category = category;
        import->seen[at].is = mrd_activity_of(mrd_strtab_get(import->strings, category));
    }
    return import->seen[at].is;
}

static int64_t
te_arg_int(te *import, mrd_sid key)
{
    const mrd_arg *arg = mrd_args_find(import->args, key);

    return arg != NULL && arg->type == MRD_ARG_INT ? arg->v.i : MRD_NONE;
}

void
mrd_te_look(te *import, mrd_sid category, uint32_t line)
{
    mrd_activity where = te_activity(import, category);
    int64_t device = MRD_NONE, rank;

    if (where == MRD_ACTIVITY_UNKNOWN && (rank = te_arg_int(import, import->key_rank)) >= 0)
        mrd_te_saw_rank(&import->lines, line, rank);
    if (where == MRD_ACTIVITY_DEVICE || where == MRD_ACTIVITY_UNKNOWN)
        device = te_arg_int(import, import->key_device);
    if (where == MRD_ACTIVITY_UNKNOWN && device >= 0 && device != MRD_NONE &&
        te_arg_int(import, import->key_stream) != MRD_NONE)
        where = MRD_ACTIVITY_DEVICE;
    if (where != MRD_ACTIVITY_UNKNOWN)
        mrd_te_saw(&import->lines, line, where, device);
}

/* Converts a record to an event with its arguments. `flow` is space for the flow arrow that the
 * record's bind_id states. */
static void
te_event(te *import, const te_record *rec, mrd_event_kind kind, uint32_t line, mrd_flow *flow,
         mrd_event *ev)
{
    size_t n_args;

    *ev = (mrd_event){ .ts = rec->ts,
                       .kind = (uint8_t) kind,
                       .track = line == TE_NONE ? 0 : mrd_te_track(&import->lines, line),
                       .name = rec->name,
                       .category = rec->cat,
                       .bound_ns = MRD_BOUND_LOCAL,
                       .id = rec->has_id ? rec->id : 0 };
    ev->args = mrd_args_view(import->args, &n_args);
    ev->arg_count = (uint32_t) n_args;
    if (ev->name == MRD_SID_EMPTY)
        ev->name = mrd_strtab_addz(import->strings, "(no name)");
    if (kind == MRD_SPAN && line != TE_NONE)
        mrd_te_look(import, rec->cat, line);
    if (rec->has_bind && (rec->flow_in || rec->flow_out)) {
        *flow = (mrd_flow){ .id = mrd_flow_id(te_input_number(import), 0xb1d, rec->bind_id),
                            .dir = rec->flow_in && rec->flow_out ? MRD_FLOW_STEP
                                   : rec->flow_in                ? MRD_FLOW_END
                                                                 : MRD_FLOW_START };
        ev->flows = flow;
        ev->flow_count = 1;
    }
}

static mrd_err
te_complete(te *import, const te_record *rec)
{
    mrd_event ev;
    mrd_flow flow;
    uint32_t line;
    mrd_err err;

    if (rec->has_dur && rec->dur < 0)
        return mrd_te_drop(import, rec, "a span with a negative duration");
    if ((err = te_thread_line(import, rec, &line)) != MRD_OK)
        return te_no_line(import, rec, err);
    te_event(import, rec, MRD_SPAN, line, &flow, &ev);
    ev.dur_ns = rec->has_dur ? rec->dur : MRD_DUR_UNFINISHED;
    import->input->records++;
    import->input->unfinished += !rec->has_dur;
    return mrd_te_put(import, &ev);
}

static mrd_err
te_instant(te *import, const te_record *rec)
{
    mrd_event ev;
    mrd_flow flow;
    uint32_t line;
    mrd_err err;

    if ((err = te_thread_line(import, rec, &line)) != MRD_OK)
        return te_no_line(import, rec, err);
    te_event(import, rec, MRD_INSTANT, line, &flow, &ev);
    import->input->records++;
    return mrd_te_put(import, &ev);
}

static mrd_err
te_flow_point(te *import, const te_record *rec)
{
    mrd_event ev;
    mrd_flow flow;
    uint32_t line;
    mrd_err err;

    if (!rec->has_id)
        return mrd_te_drop(import, rec, "a flow record without id");
    if ((err = te_thread_line(import, rec, &line)) != MRD_OK)
        return te_no_line(import, rec, err);
    te_event(import, rec, MRD_FLOW, line, &flow, &ev);
    ev.id = mrd_flow_id(te_input_number(import), te_flow_scope(import, rec), rec->id);
    ev.flow_dir = rec->ph == 's' ? MRD_FLOW_START : rec->ph == 't' ? MRD_FLOW_STEP : MRD_FLOW_END;
    ev.flow_count = 0;
    if (rec->ph == 'f' && !rec->enclosing)
        ev.flags |= MRD_EV_NEXT;
    import->input->records++;
    return mrd_te_put(import, &ev);
}

/* Stores a begin or an end. mrd_te_pair() pairs them after the end of the file. */
static mrd_err
te_begin_end(te *import, const te_record *rec)
{
    mrd_event ev;
    mrd_flow flow;
    uint32_t line;
    mrd_err err;

    if ((err = te_thread_line(import, rec, &line)) != MRD_OK)
        return te_no_line(import, rec, err);
    te_event(import, rec, MRD_INSTANT, TE_NONE, &flow, &ev);
    ev.name = rec->name;
    if (rec->ph == 'B')
        mrd_te_look(import, rec->cat, line);
    return mrd_te_later(import, &ev, rec->ph == 'B' ? TE_BEGIN : TE_END, line, TE_NONE);
}

static mrd_err
te_async_record(te *import, const te_record *rec)
{
    te_part part = rec->ph == 'b' || rec->ph == 'S'   ? TE_BEGIN
                   : rec->ph == 'e' || rec->ph == 'F' ? TE_END
                                                      : TE_MARK;
    uint32_t proc, owner;
    mrd_event ev;
    mrd_flow flow;
    mrd_err err = mrd_te_proc_of(&import->lines, rec->pid, &proc);

    if (err != MRD_OK)
        return te_no_line(import, rec, err);
    if (!rec->has_id)
        return mrd_te_drop(import, rec, "an async record without id");
    if ((err = mrd_te_owner_of(&import->lines, proc, rec->scope, rec->global_id, &owner)) != MRD_OK)
        return te_no_line(import, rec, err);
    te_event(import, rec, MRD_INSTANT, TE_NONE, &flow, &ev);
    ev.name = rec->name;
    return mrd_te_later(import, &ev, part, TE_NONE, owner);
}

/* Sets the name of a counter: the record's name, then "[id]" if it has an id. The key of the value
 * is appended, unless it is "value" or the record's name. */
static mrd_err
te_counter_name(te *import, const te_record *rec, mrd_sid key, mrd_sid *ret_name)
{
    mrd_str name = mrd_strtab_get(import->strings, rec->name),
            str = mrd_strtab_get(import->strings, key);
    mrd_buf buf = { 0 };
    mrd_err err;

    if ((key == import->key_value || key == rec->name) && !rec->has_id) {
        *ret_name = rec->name;
        return MRD_OK;
    }
    mrd_buf_str(&buf, name);
    if (rec->has_id)
        mrd_buf_fmt(&buf, "[%llu]", (unsigned long long) rec->id);
    if (key != import->key_value && key != rec->name) {
        mrd_buf_byte(&buf, ' ');
        mrd_buf_str(&buf, str);
    }
    if ((err = buf.err) == MRD_OK)
        *ret_name = mrd_strtab_add(import->strings, (mrd_str){ (const char *) buf.p, buf.len });
    mrd_buf_fini(&buf);
    return err;
}

/* Stores an argument's value as a counter's sample. The number may be quoted. Returns false if it
 * is no number. */
static bool
te_counter_value(te *import, const mrd_arg *arg, mrd_event *ev)
{
    mrd_str text = { "", 0 };

    switch ((mrd_arg_type) arg->type) {
    case MRD_ARG_INT:
    case MRD_ARG_UINT:
        ev->ivalue = arg->v.i;
        ev->flags = arg->type == MRD_ARG_UINT ? MRD_EV_INT | MRD_EV_UNSIGNED : MRD_EV_INT;
        return true;
    case MRD_ARG_BOOL:
        ev->ivalue = (int64_t) arg->v.u;
        ev->flags = MRD_EV_INT;
        return true;
    case MRD_ARG_DOUBLE:
        ev->value = arg->v.d;
        return true;
    case MRD_ARG_STR:
        text = mrd_strtab_get(import->strings, arg->v.sid);
        break;
    case MRD_ARG_TEXT:
        text = (mrd_str){ arg->v.text, arg->len };
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
te_counter(te *import, const te_record *rec)
{
    size_t n;
    const mrd_arg *args = mrd_args_view(import->args, &n);
    uint32_t proc, line;
    mrd_sid name;
    mrd_err err = mrd_te_proc_of(&import->lines, rec->pid, &proc);

    if (err != MRD_OK)
        return te_no_line(import, rec, err);
    if (n == 0)
        return mrd_te_drop(import, rec, "a counter record without values");
    for (size_t i = 0; i < n; i++) {
        mrd_event ev = { .ts = rec->ts, .kind = MRD_COUNTER, .category = rec->cat };

        if (!te_counter_value(import, &args[i], &ev)) {
            mrd_te_drop(import, rec, "a counter value that is not a number");
            continue;
        }
        if ((err = te_counter_name(import, rec, args[i].key, &name)) == MRD_OK)
            err = mrd_te_named_line(&import->lines, TE_COUNTER, proc, name, 0, &line);
        if (err != MRD_OK) {
            if ((err = te_no_line(import, rec, err)) != MRD_OK)
                return err;
            continue;
        }
        ev.track = mrd_te_track(&import->lines, line);
        ev.name = import->lines.lines[line].name;
        import->input->records++;
        if ((err = mrd_te_put(import, &ev)) != MRD_OK)
            return err;
    }
    return MRD_OK;
}

/* ---- Metadata ---- */

static mrd_sid
te_arg_sid(te *import, mrd_sid key)
{
    const mrd_arg *arg = mrd_args_find(import->args, key);

    if (arg == NULL)
        return MRD_SID_EMPTY;
    if (arg->type == MRD_ARG_STR)
        return arg->v.sid;
    return arg->type == MRD_ARG_TEXT
               ? mrd_strtab_add(import->strings, (mrd_str){ arg->v.text, arg->len })
               : MRD_SID_EMPTY;
}

void
mrd_te_keep_fact(te *import, mrd_str key, mrd_str value)
{
    char name[160], text[TE_FACT_BYTES];

    if (import->facts_kept == TE_FACTS_MAX || key.len == 0 || key.len > 100 ||
        value.len >= sizeof(text))
        return;
    import->facts_kept++;
    snprintf(name, sizeof(name), "input.%u." MRD_STR_FMT, import->imp->input, MRD_STR_ARG(key));
    snprintf(text, sizeof(text), MRD_STR_FMT, MRD_STR_ARG(value));
    mrd_catalog_set(import->imp->catalog, name, text);
}

static mrd_err
te_metadata(te *import, const te_record *rec)
{
    mrd_str what = mrd_strtab_get(import->strings, rec->name);
    uint32_t proc, line;
    mrd_err err;

    if (mrd_str_starts(what, "thread_")) {
        if ((err = te_thread_line(import, rec, &line)) != MRD_OK)
            return err == MRD_LIMIT ? MRD_OK : err;
        if (mrd_str_is(what, "thread_name"))
            import->lines.lines[line].name = te_arg_sid(import, import->key_name);
        else if (mrd_str_is(what, "thread_sort_index"))
            import->lines.lines[line].sort_index = te_arg_int(import, import->key_sort);
        return MRD_OK;
    }
    if ((err = mrd_te_proc_of(&import->lines, rec->pid, &proc)) != MRD_OK)
        return err == MRD_LIMIT ? MRD_OK : err;
    if (mrd_str_is(what, "process_name"))
        import->lines.procs[proc].name = te_arg_sid(import, import->key_name);
    else if (mrd_str_is(what, "process_labels"))
        import->lines.procs[proc].labels = te_arg_sid(import, import->key_labels);
    else if (mrd_str_is(what, "process_sort_index"))
        import->lines.procs[proc].sort_index = te_arg_int(import, import->key_sort);
    else
        mrd_te_keep_fact(import, what,
                         mrd_strtab_get(import->strings, te_arg_sid(import, import->key_name)));
    return MRD_OK;
}

static mrd_err
te_unsupported(te *import, const te_record *rec)
{
    size_t n = strlen(import->unsupported_phases);

    import->input->records++;
    import->input->dropped++;
    import->unsupported++;
    if (rec->ph > ' ' && rec->ph < 0x7f && strchr(import->unsupported_phases, rec->ph) == NULL &&
        n + 1 < sizeof(import->unsupported_phases))
        import->unsupported_phases[n] = rec->ph;
    return MRD_OK;
}

mrd_err
mrd_te_dispatch(te *import, te_record *rec)
{
    if (rec->ph == 'M')
        return te_metadata(import, rec);
    if (rec->ph == 0 && rec->bad == NULL)
        return mrd_te_drop(import, rec, "a record without phase (\"ph\")");
    if (rec->bad != NULL)
        return mrd_te_drop(import, rec, rec->bad);
    if (strchr("XBEiIRstfCbneSTpF", rec->ph) == NULL)
        return te_unsupported(import, rec);
    if (!rec->has_ts)
        return mrd_te_drop(import, rec, "an event without time (\"ts\")");
    import->absolute += rec->ts.ns >= 1000000000LL * MRD_SEC ? 1 : -1;
    switch (rec->ph) {
    case 'X':
        return te_complete(import, rec);
    case 'B':
    case 'E':
        return te_begin_end(import, rec);
    case 'C':
        return te_counter(import, rec);
    case 's':
    case 't':
    case 'f':
        return te_flow_point(import, rec);
    case 'i':
    case 'I':
    case 'R':
        return te_instant(import, rec);
    default:
        return te_async_record(import, rec);
    }
}
