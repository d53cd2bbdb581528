/*
 * trace/import/trace_event/import_trace_event.c - reads Trace Event JSON (the Chrome format), as
 * Kineto, JAX, Chrome, MXNet and the Neuron framework trace write it. The format is described in
 * the "Trace Event Format" document of the Chromium project. Comments point out where real files
 * differ from this document, for example in Kineto's base time.
 */
#include "trace/import/import.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/hash.h"
#include "base/num.h"
#include "base/obj.h"
#include "trace/import/trace_event/te_int.h"

typedef enum {
    TE_KEY_NONE,
    TE_PH,
    TE_NAME,
    TE_CAT,
    TE_PID,
    TE_TID,
    TE_TS,
    TE_DUR,
    TE_ID,
    TE_ID2,
    TE_BIND_ID,
    TE_FLOW_IN,
    TE_FLOW_OUT,
    TE_ARGS,
    TE_SCOPE,
    TE_BP,
    TE_HOW, /* key "s": only affects how a viewer draws the event */
} te_key;

__attribute__((always_inline)) static inline te_key
te_key_of(mrd_str key)
{
#define TE_IS(text, value) (memcmp(key.p, text, sizeof(text) - 1) == 0 ? (value) : TE_KEY_NONE)
    switch (key.len) {
    case 1:
        return key.p[0] == 's' ? TE_HOW : TE_KEY_NONE;
    case 2:
        switch (key.p[0]) {
        case 'p':
            return TE_IS("ph", TE_PH);
        case 't':
            return TE_IS("ts", TE_TS);
        case 'i':
            return TE_IS("id", TE_ID);
        default:
            return TE_IS("bp", TE_BP);
        }
    case 3:
        switch (key.p[0]) {
        case 'p':
            return TE_IS("pid", TE_PID);
        case 't':
            return TE_IS("tid", TE_TID);
        case 'd':
            return TE_IS("dur", TE_DUR);
        case 'c':
            return TE_IS("cat", TE_CAT);
        default:
            return TE_IS("id2", TE_ID2);
        }
    case 4:
        return key.p[0] == 'n' ? TE_IS("name", TE_NAME) : TE_IS("args", TE_ARGS);
    case 5:
        return TE_IS("scope", TE_SCOPE);
    case 7:
        return key.p[0] == 'b' ? TE_IS("bind_id", TE_BIND_ID) : TE_IS("flow_in", TE_FLOW_IN);
    case 8:
        return TE_IS("flow_out", TE_FLOW_OUT);
    default:
        return TE_KEY_NONE;
    }
#undef TE_IS
}

/* ---- Fields ---- */

static te_id
te_id_of(te *import, mrd_jr_type type, mrd_str text)
{
    te_id id = { 0 };

    uint64_t digits;

    if (mrd_num_digits(text, &digits) && digits <= INT64_MAX)
        return (te_id){ .number = (int64_t) digits };
    if (type == MRD_JR_NULL || mrd_num_i64(text, &id.number) == MRD_OK)
        return id;
    return (te_id){ .is_word = true, .word = mrd_strtab_add(import->strings, text) };
}

/* Returns the number for the id of a flow arrow or async span. The id may be decimal or
 * hexadecimal, also in quotes. Any other text is hashed. */
static uint64_t
te_id_number(mrd_str text)
{
    uint64_t id;
    int64_t negative;

    if (mrd_num_digits(text, &id))
        return id;
    if (mrd_num_u64(text, &id) == MRD_OK)
        return id;
    if (mrd_num_i64(text, &negative) == MRD_OK)
        return (uint64_t) negative;
    return mrd_hash64(text.p, text.len, 0x1d);
}

static bool
te_is_scalar(mrd_jr_type type)
{
    return type != MRD_JR_OBJECT && type != MRD_JR_ARRAY;
}

/* Converts decimal microseconds, which may be quoted, to ns. */
static bool
te_time(mrd_jr_type type, mrd_str text, int64_t *ret_ns)
{
    static const uint64_t scale[] = { 1000, 100, 10, 1 };
    size_t n_whole = text.len, n_frac = 0;
    uint64_t whole, frac = 0;

    /* fast path for most times: up to 16 digits, at most three of them after the point */
    while (n_frac < 3 && n_frac + 1 < text.len && text.p[text.len - 1 - n_frac] != '.')
        n_frac++;
    if (n_frac > 0 && text.p[text.len - 1 - n_frac] == '.')
        n_whole -= n_frac + 1;
    else
        n_frac = 0;
    if (n_whole <= 16 && mrd_num_digits((mrd_str){ text.p, n_whole }, &whole) &&
        (n_frac == 0 || mrd_num_digits((mrd_str){ text.p + n_whole + 1, n_frac }, &frac))) {
        *ret_ns = (int64_t) (whole * 1000 + frac * scale[n_frac]);
        return true;
    }
    return (type == MRD_JR_NUMBER || type == MRD_JR_STRING) &&
           mrd_num_scaled(text, 3, ret_ns) == MRD_OK;
}

static mrd_err te_read_args(te *import);

/* Reads "id2", an object with a member "local" or "global". */
static mrd_err
te_read_id2(te *import, te_record *rec)
{
    mrd_str key, text;
    mrd_jr_type type;

    mrd_json_enter(import->r);
    while ((type = mrd_json_next(import->r, &key, &text)) > MRD_JR_END) {
        if (!te_is_scalar(type))
            continue;
        rec->id = te_id_number(text);
        rec->has_id = true;
        rec->local_id = mrd_str_is(key, "local");
        rec->global_id = !rec->local_id;
    }
    return mrd_json_reader_err(import->r, NULL);
}

/* Returns why te_time() has refused this text. */
static const char *
te_bad_time(mrd_str text)
{
    double value;

    if (mrd_num_double(text, &value) != MRD_OK)
        return "\"ts\" is no number";
    return value > 1e18 && value < 4e18
               ? "\"ts\" looks like nanoseconds, where the format has microseconds: divide all "
                 "times and durations by 1000"
               : "\"ts\" lies before 1896 or after 2116";
}

static mrd_err
te_read_field(te *import, te_record *rec, te_key field, mrd_str key, mrd_jr_type type, mrd_str text)
{
#define TE_WRONG(name) "\"" name "\" has the wrong type or range"
    static const char *const wrong[] = {
        [TE_PH] = TE_WRONG("ph"),       [TE_NAME] = TE_WRONG("name"),
        [TE_CAT] = TE_WRONG("cat"),     [TE_PID] = TE_WRONG("pid"),
        [TE_TID] = TE_WRONG("tid"),     [TE_DUR] = TE_WRONG("dur"),
        [TE_ID] = TE_WRONG("id"),       [TE_BIND_ID] = TE_WRONG("bind_id"),
        [TE_SCOPE] = TE_WRONG("scope"),
    };
#undef TE_WRONG
    bool ok = te_is_scalar(type);

    switch (field) {
    case TE_PH:
        ok = type == MRD_JR_STRING && text.len == 1;
        rec->ph = ok ? text.p[0] : rec->ph;
        break;
    case TE_NAME:
        if (ok)
            rec->name = mrd_args_key(import->args, text);
        break;
    case TE_CAT:
        if (ok)
            rec->cat = mrd_args_key(import->args, text);
        break;
    case TE_PID:
        if (ok)
            rec->pid = te_id_of(import, type, text);
        break;
    case TE_TID:
        if (ok)
            rec->tid = te_id_of(import, type, text);
        break;
    case TE_TS:
        rec->has_ts = te_time(type, text, &rec->ts.ns);
        if (!rec->has_ts && type != MRD_JR_NULL && rec->bad == NULL)
            rec->bad = te_bad_time(text);
        return MRD_OK;
    case TE_DUR:
        rec->has_dur = te_time(type, text, &rec->dur);
        ok = rec->has_dur || type == MRD_JR_NULL || type == MRD_JR_WORD; /* null: no duration */
        break;
    case TE_ID:
        rec->has_id = ok;
        rec->id = ok ? te_id_number(text) : 0;
        break;
    case TE_BIND_ID:
        rec->has_bind = ok;
        rec->bind_id = ok ? te_id_number(text) : 0;
        break;
    case TE_FLOW_IN:
        rec->flow_in = type == MRD_JR_TRUE;
        break;
    case TE_FLOW_OUT:
        rec->flow_out = type == MRD_JR_TRUE;
        break;
    case TE_SCOPE:
        if (ok)
            rec->scope = mrd_strtab_add(import->strings, text);
        break;
    case TE_BP:
        rec->enclosing = mrd_str_is(text, "e");
        ok = true;
        break;
    case TE_HOW:
        ok = true;
        break;
    case TE_ID2:
        return type == MRD_JR_OBJECT ? te_read_id2(import, rec) : MRD_OK;
    case TE_ARGS:
        if (type == MRD_JR_OBJECT)
            return te_read_args(import);
        __attribute__((fallthrough));
    case TE_KEY_NONE:
        return mrd_args_value(import->args, mrd_args_key(import->args, key), import->r, type, text);
    }
    if (!ok && rec->bad == NULL)
        rec->bad = wrong[field];
    return MRD_OK;
}

static mrd_err
te_read_args(te *import)
{
    mrd_str key, text;
    mrd_jr_type type;
    mrd_err err;

    mrd_json_enter(import->r);
    while ((type = mrd_json_next(import->r, &key, &text)) > MRD_JR_END) {
        err = mrd_args_value(import->args, mrd_args_key(import->args, key), import->r, type, text);
        if (err != MRD_OK)
            return err;
    }
    return mrd_json_reader_err(import->r, NULL);
}

/* ---- The file ---- */

/* Handles a record that may be wrong: the first record after damaged text, or a record of a
 * document about another trace than the first document. */
static mrd_err
te_doubtful(te *import, te_record *rec)
{
    /* this object is not a record, but a part of the damaged record */
    if (rec->ph == 0 && import->is_searching)
        return MRD_OK;
    import->is_searching = false;
    return import->foreign
               ? mrd_te_drop(import, rec,
                             "the document that begins here or before is of another rank, "
                             "node or time base than the first: split the file")
               : mrd_te_dispatch(import, rec);
}

static mrd_err te_read_trace(te *import, mrd_str key, mrd_jr_type type, mrd_str text);

/* Reads an object after the reader has returned its begin. It is a record, or at the top level
 * possibly a whole trace. */
__attribute__((always_inline)) static inline mrd_err
te_read_object(te *import, bool is_top)
{
    te_record rec;
    mrd_str key, text;
    mrd_jr_type type;
    mrd_err err;

    memset(&rec, 0, sizeof(rec)); /* clears the padding, too, because ids are compared as bytes */
    rec.offset = mrd_json_reader_offset(import->r);
    mrd_args_reset(import->args);
    if (!is_top)
        mrd_json_mark(import->r, rec.offset, mrd_json_depth(import->r));
    mrd_json_enter(import->r);
    type = mrd_json_next(import->r, &key, &text);
    if (is_top) {
        if (type <= MRD_JR_END || te_key_of(key) == TE_KEY_NONE)
            return te_read_trace(import, key, type, text);
        mrd_json_mark(import->r, rec.offset, 0);
    }
    import->empty_last = type == MRD_JR_END; /* the XLA profiler ends its list with {} */
    if (import->empty_last)
        return MRD_OK;
    for (; type > MRD_JR_END; type = mrd_json_next(import->r, &key, &text)) {
        if ((err = te_read_field(import, &rec, te_key_of(key), key, type, text)) != MRD_OK)
            return err;
    }
    if ((err = mrd_json_reader_err(import->r, NULL)) != MRD_OK)
        return err;
    if ((err = mrd_args_err(import->args)) != MRD_OK)
        return err;
    return import->is_searching || import->foreign ? te_doubtful(import, &rec)
                                                   : mrd_te_dispatch(import, &rec);
}

static mrd_err te_read_values(te *import);

/* Handles a value that is no object, where a record or a trace is expected. */
static mrd_err
te_read_other(te *import, bool is_top, mrd_jr_type type)
{
    te_record rec = { .offset = mrd_json_reader_offset(import->r) };
    uint64_t before = import->input->records;
    mrd_err err;

    /* At the top level, an array is a list of records. An array inside a list comes from a second
     * writer. It appended its own list to a list without a closing bracket. */
    if (type == MRD_JR_ARRAY) {
        import->traces += is_top;
        import->is_array_form = import->is_array_form || is_top;
        mrd_json_enter(import->r);
        err = te_read_values(import);
        import->is_array_form = import->is_array_form && !is_top;
        if (is_top || err != MRD_OK || import->input->records > before)
            return err;
    }
    if (!is_top)
        return mrd_te_drop(import, &rec, "a record that is not an object");
    if (import->stray_at == 0)
        import->stray_at = rec.offset;
    return import->traces + import->input->records > 0 ? MRD_OK : MRD_FORMAT;
}

/* Reads the values of the JSON array that the reader is in. Each value is a record (one event). At
 * the top level of the file, reads all values. There, an object is a record or a whole trace. */
static mrd_err
te_read_values(te *import)
{
    unsigned depth = mrd_json_depth(import->r);
    mrd_jr_type type;
    mrd_bytes rest;
    mrd_err err = MRD_OK;

    do {
        while (err == MRD_OK && (type = mrd_json_next(import->r, NULL, NULL)) > MRD_JR_END)
            err = type == MRD_JR_OBJECT ? te_read_object(import, depth == 0)
                                        : te_read_other(import, depth == 0, type);
        if (mrd_json_reader_err(import->r, NULL) == MRD_OK || import->cut_array)
            return err;
        err = mrd_json_reader_err(import->r, NULL);
        /* A top-level list of records may lack its closing bracket. If decompression fails at its
         * end, the file is damaged instead. */
        if (err == MRD_TRUNCATED && import->is_array_form && mrd_json_depth(import->r) == depth &&
            mrd_in_fill(import->imp->in, 1, &rest, NULL) == MRD_OK) {
            import->cut_array = true;
            return MRD_OK;
        }
        import->is_searching = mrd_import_resume(import->imp, import->r, depth);
        import->resumed = import->resumed || (depth == 0 && import->is_searching);
        err = import->is_searching ? MRD_OK : err;
    } while (err == MRD_OK);
    return err;
}

/* Stores a number, such as the rank, that a document states about its trace. A different number in
 * a later document shows that this document belongs to another trace. */
static void
te_take_number(te *import, mrd_str text, int64_t *fact)
{
    int64_t value;

    if (mrd_num_i64(text, &value) != MRD_OK)
        return;
    if (*fact == MRD_NONE)
        *fact = value;
    import->foreign = import->foreign || *fact != value;
}

/* Stores the base of all times, in ns since 1970. A different base in a later document shows that
 * this document belongs to another trace. */
static void
te_take_base(te *import, mrd_str text)
{
    int64_t base;

    if (mrd_num_i64(text, &base) != MRD_OK || !mrd_time_sane(base))
        return;
    if (!import->has_base)
        import->base.ns = base;
    import->foreign = import->foreign || import->base.ns != base;
    import->has_base = true;
}

static mrd_err
te_read_distributed(te *import)
{
    mrd_str key, text;
    mrd_jr_type type;

    import->facts.kineto = true;
    mrd_json_enter(import->r);
    while ((type = mrd_json_next(import->r, &key, &text)) > MRD_JR_END) {
        if (mrd_str_is(key, "rank") && te_is_scalar(type))
            te_take_number(import, text, &import->facts.rank);
        else if (mrd_str_is(key, "world_size") && te_is_scalar(type))
            te_take_number(import, text, &import->facts.world_size);
        else if (mrd_str_is(key, "pg_count") && te_is_scalar(type))
            te_take_number(import, text, &import->facts.groups);
        else if (te_is_scalar(type))
            mrd_te_keep_fact(import, key, text);
        if (mrd_str_is(key, "backend") && type == MRD_JR_STRING)
            import->imp->backend = mrd_strtab_add(import->strings, text);
    }
    return mrd_json_reader_err(import->r, NULL);
}

/* Stores a top-level member without special meaning as a fact about the file. */
static mrd_err
te_read_fact(te *import, mrd_str key, mrd_jr_type type, mrd_str text)
{
    char name[128];
    mrd_err err;

    if (te_is_scalar(type)) {
        if (mrd_str_is(key, "host_name") && type == MRD_JR_STRING) {
            mrd_sid host = mrd_strtab_add(import->strings, text);

            import->foreign = import->foreign ||
                              (import->facts.host != MRD_SID_EMPTY && import->facts.host != host);
            import->facts.host = import->facts.host != MRD_SID_EMPTY ? import->facts.host : host;
        }
        if (mrd_str_is(key, "schemaVersion"))
            import->facts.kineto = true;
        mrd_te_keep_fact(import, key, text);
        return MRD_OK;
    }
    if (mrd_str_is(key, "deviceProperties") || mrd_str_is(key, "computeProperties"))
        import->facts.kineto = true;
    snprintf(name, sizeof(name), MRD_STR_FMT, (int) (key.len < 100 ? key.len : 100), key.p);
    err = mrd_json_raw(import->r, TE_FACT_BYTES - 1, &text);
    if (err == MRD_OK)
        mrd_te_keep_fact(import, mrd_str_of(name), text);
    return mrd_json_reader_err(import->r, NULL);
}

/* Reads "viztracer_metadata", which may have the base of the times. */
static mrd_err
te_read_viztracer(te *import)
{
    mrd_str key, text;
    mrd_jr_type type;

    mrd_json_enter(import->r);
    while ((type = mrd_json_next(import->r, &key, &text)) > MRD_JR_END) {
        if (mrd_str_is(key, "baseTimeNanoseconds") && te_is_scalar(type))
            te_take_base(import, text);
        else if (te_is_scalar(type))
            mrd_te_keep_fact(import, key, text);
    }
    return mrd_json_reader_err(import->r, NULL);
}

/* Reads "metadata". A member "highres-ticks" shows that the XLA profiler wrote the file. */
static mrd_err
te_read_metadata(te *import)
{
    mrd_str key, text;
    mrd_jr_type type;

    mrd_json_enter(import->r);
    while ((type = mrd_json_next(import->r, &key, &text)) > MRD_JR_END) {
        import->is_xla = import->is_xla || mrd_str_is(key, "highres-ticks");
        if (te_is_scalar(type))
            mrd_te_keep_fact(import, key, text);
    }
    return mrd_json_reader_err(import->r, NULL);
}

static mrd_err
te_read_top_member(te *import, mrd_str key, mrd_jr_type type, mrd_str text)
{
    if (mrd_str_is(key, "traceEvents") && type == MRD_JR_ARRAY) {
        import->traces++;
        mrd_json_enter(import->r);
        return te_read_values(import);
    }
    if (mrd_str_is(key, "distributedInfo") && type == MRD_JR_OBJECT)
        return te_read_distributed(import);
    if (mrd_str_is(key, "viztracer_metadata") && type == MRD_JR_OBJECT)
        return te_read_viztracer(import);
    if (mrd_str_is(key, "metadata") && type == MRD_JR_OBJECT)
        return te_read_metadata(import);
    if (mrd_str_is(key, "baseTimeNanoseconds") && te_is_scalar(type)) {
        te_take_base(import, text);
        return MRD_OK;
    }
    return te_read_fact(import, key, type, text);
}

/* Reads all members of a trace object. The caller has read the first key and value, and passes them
 * in the arguments. */
static mrd_err
te_read_trace(te *import, mrd_str key, mrd_jr_type type, mrd_str text)
{
    for (; type > MRD_JR_END; type = mrd_json_next(import->r, &key, &text)) {
        mrd_err err = te_read_top_member(import, key, type, text);

        if (err != MRD_OK)
            return err;
    }
    return mrd_json_reader_err(import->r, NULL);
}

/* number of records at which the XLA profiler stops; later records are missing */
#define TE_XLA_MOST 1000000u

/* Sets the input's error if something is wrong with the file as a whole. An error of a single
 * record has priority. */
static void
te_whole(te *import)
{
    char text[256] = "";

    if (import->traces > 1)
        snprintf(text, sizeof(text),
                 "%" PRIu64 " traces stand one behind another in the file, and were read as one%s",
                 import->traces,
                 import->foreign ? ", although they state different ranks, nodes or time bases"
                                 : "");
    else if ((import->is_xla || import->empty_last) && import->input->records == TE_XLA_MOST)
        snprintf(
            text, sizeof(text),
            "it has exactly %u events, which is the most that the JAX profiler writes as JSON: "
            "later ones are missing, and the .xplane.pb beside it has them",
            TE_XLA_MOST);
    else if (import->stray_at > 0)
        snprintf(text, sizeof(text), "byte %" PRIu64 ": text behind the end of the trace",
                 import->stray_at);
    if (text[0] != '\0' && import->input->error == MRD_SID_EMPTY)
        import->input->error = mrd_catalog_intern(import->imp->catalog, text);
}

static void
te_notes(te *import)
{
    const char *name = mrd_in_name(import->imp->in);

    if (import->cut_array)
        mrd_catalog_note(import->imp->catalog,
                         "'%s' ends without the closing bracket, which its format allows", name);
    if (import->unsupported > 0)
        mrd_catalog_note(import->imp->catalog,
                         "'%s': %llu records of phases that are not events on a timeline (%s) were "
                         "left out",
                         name, (unsigned long long) import->unsupported,
                         import->unsupported_phases);
    mrd_import_note_text(import->imp, import->r);
    if (import->has_base && import->absolute > 0)
        mrd_catalog_note(import->imp->catalog,
                         "'%s': baseTimeNanoseconds was ignored, since the times are of the epoch "
                         "already",
                         name);
}

static mrd_err
te_finish(te *import, mrd_why *why)
{
    mrd_err err = mrd_te_pair(import, why),
            places = mrd_te_lines_finish(&import->lines, &import->facts);

    /* reported even if the file is damaged, because events may be in wrong processes */
    if (places != MRD_OK)
        err = mrd_why_set(why, places, 0, "the processes and threads of the file");
    te_notes(import);
    te_whole(import);
    /* Only now it is clear whether the times count from 1970: a few records may have wrong times,
     * so all of them decide together. */
    if (err == MRD_OK && import->has_base && import->absolute <= 0 && import->base.ns != 0 &&
        import->input->events > 0)
        err = import->imp->shift(import->imp, 0, import->base.ns);
    return err;
}

static mrd_err
te_run(mrd_import *imp, mrd_why *why)
{
    mrd_json_reader *reader = NULL;
    mrd_err err = mrd_json_reader_open(imp->in, &reader, why), end;
    mrd_why late = { 0 };
    const mrd_why *kept = NULL;
    bool refused;
    te import;

    if (err != MRD_OK)
        return err;
    mrd_te_init(&import, imp);
    import.r = reader;
    if (import.args == NULL) {
        err = mrd_why_set(why, MRD_NOMEM, 0, "'%s'", mrd_in_name(imp->in));
        goto out;
    }
    mrd_json_many(reader);
    err = te_read_values(&import);
    refused = err != MRD_OK && mrd_json_reader_err(reader, why) == MRD_OK;
    if (refused && import.later != NULL)
        kept = mrd_stream_failure(import.later);
    if (refused)
        mrd_why_set(why, err, 0, "'%s': %s", mrd_in_name(imp->in),
                    err == MRD_FORMAT ? "neither an object nor an array"
                    : kept != NULL    ? kept->text
                                      : "events could not be kept");
    else if (err == MRD_SYNTAX && import.resumed && import.input->error != MRD_SID_EMPTY)
        /* The damage was reported when it was found, so ignore an error after the last record. */
        err = MRD_OK;
    /* if the storage refused an event, emit no further events */
    end = refused ? MRD_OK : te_finish(&import, &late);
    if (end != MRD_OK && (err == MRD_OK || end == MRD_NOMEM)) {
        /* reported even if the file is damaged, because even its readable part would be wrong */
        err = end;
        if (why != NULL)
            *why = late;
    }
out:
    mrd_te_fini(&import);
    mrd_json_reader_close(reader);
    return err;
}

/* Detects Trace Event JSON: "traceEvents" in an object, an array of objects with phases, or one
 * such object per line. */
static int
te_probe(mrd_str head, const char *name)
{
    char first = mrd_str_first(head);

    (void) name;
    if (first == '{') {
        /* "traceEvents" may come after these bytes. Then they contain Kineto's description of
         * devices, or Meridian's header. */
        bool kineto =
            mrd_str_has(head, "\"schemaVersion\"") &&
            (mrd_str_has(head, "\"deviceProperties\"") || mrd_str_has(head, "\"distributedInfo\""));
        bool own = mrd_str_has(head, "\"meridian\":{\"format\":\"chrome\"");
        bool records = mrd_str_has(head, "\"ph\"") && mrd_str_has(head, "\"ts\"");

        return mrd_str_has(head, "\"traceEvents\"") ? 90 : kineto || own ? 60 : records ? 50 : 0;
    }
    if (first == '[')
        return mrd_str_has(head, "\"ph\"") ? 80 : 0;
    return 0;
}

const mrd_import_ops mrd_import_trace_event = {
    .name = "trace-event-json",
    .what = "Trace Event JSON of Kineto, JAX, Chrome, MXNet and the Neuron framework trace",
    .probe = te_probe,
    .run = te_run,
};
