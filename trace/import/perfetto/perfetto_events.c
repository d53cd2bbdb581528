/*
 * The events of a Perfetto trace: names by number, arguments, begins and ends, counters, arrows.
 * Arrows have no direction in the format. By time, the first point of an id is its start, the last
 * one its end.
 */
#include "trace/import/perfetto/perfetto_int.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/conf/json.h"
#include "base/num.h"

#define JSON_DEPTH 32 /* of nested arguments */
#define EXTRA_MAX  8  /* further counter values of one event, as in Perfetto */
#define TYPE_STATE 5  /* a type that Meridian does not write */

/* A TrackEvent as it was read; its arguments are in te.args. */
typedef struct {
    uint64_t type, track;
    mrd_sid name, category;
    bool has_value, is_double, is_damaged;
    uint64_t value;                                                /* bits */
    uint64_t extra_track[2][EXTRA_MAX], extra_value[2][EXTRA_MAX]; /* integers, doubles */
    unsigned n_extra_track[2], n_extra_value[2];
    mrd_bytes legacy;
    uint64_t base; /* Meridian's own traces: the last arrow, and its number of further ends */
    uint32_t n_fan;
    uint8_t n_flows;
    mrd_flow flows[TE_FLOWS_MAX];
} pt_event;

/* ---- Names by number ---- */

static mrd_map_key
name_key(pt_kind kind, uint64_t iid)
{
    return (mrd_map_key){ .a = iid, .b = kind };
}

mrd_err
mrd_pt_interned(pt *p, pt_seq *seq, mrd_bytes interned)
{
    mrd_pb_item f, of;

    while (mrd_pb_take(&interned, &f)) {
        pt_kind kind = f.tag == PF_INTERN_CATEGORY   ? PT_CATEGORY
                       : f.tag == PF_INTERN_NAME     ? PT_NAME
                       : f.tag == PF_INTERN_ARG_NAME ? PT_ARG_NAME
                                                     : PT_ARG_STRING;
        mrd_bytes text = { NULL, 0 };
        uint64_t iid = 0;

        if (kind == PT_ARG_STRING && f.tag != PF_INTERN_ARG_STRING)
            continue;
        while (mrd_pb_take(&f.bytes, &of)) {
            if (of.tag == PF_INTERN_IID)
                iid = of.v;
            else if (of.tag == PF_INTERN_TEXT)
                text = of.bytes;
        }
        if (p->n_names == PT_NAMES_MAX)
            return MRD_OK; /* events then have numbers as names */
        if (mrd_map_put(&seq->names, name_key(kind, iid),
                        mrd_strtab_add(p->te.strings, mrd_pb_text(text))) != MRD_OK)
            return MRD_NOMEM;
        seq->n_names++;
        p->n_names++;
    }
    return MRD_OK;
}

/* Returns the text of this number. A missing one gets a name that states the number. */
static mrd_sid
name_of(pt *p, const pt_seq *seq, pt_kind kind, uint64_t iid)
{
    uint32_t sid = mrd_map_get(&seq->names, name_key(kind, iid));
    char text[64];

    if (sid != MRD_MAP_NONE)
        return sid;
    p->nameless++;
    snprintf(text, sizeof(text), "(name %" PRIu64 " is missing)", iid);
    return mrd_strtab_addz(p->te.strings, text);
}

/* ---- Arguments ---- */

static double
as_double(uint64_t bits)
{
    double d;

    memcpy(&d, &bits, sizeof(d));
    return d;
}

static mrd_str
valid_text(pt *p, mrd_bytes bytes)
{
    mrd_str text = mrd_pb_text(bytes);

    return mrd_utf8_valid(text, NULL)
               ? text
               : mrd_strtab_get(p->te.strings, mrd_strtab_add(p->te.strings, text));
}

static void json_value(pt *p, const pt_seq *seq, mrd_bytes value, unsigned depth, mrd_buf *to);

/* Appends the entries of an object, or the elements of an array. */
static void
json_items(pt *p, const pt_seq *seq, mrd_bytes value, unsigned depth, mrd_buf *to)
{
    bool any = false;
    mrd_pb_item f, of;

    while (mrd_pb_take(&value, &f)) {
        mrd_bytes rest = f.bytes;

        if (f.tag != PF_ARG_ENTRY && f.tag != PF_ARG_ELEMENT)
            continue;
        if (any)
            mrd_buf_byte(to, ',');
        any = true;
        while (f.tag == PF_ARG_ENTRY && mrd_pb_take(&rest, &of)) {
            if (of.tag == PF_ARG_NAME)
                mrd_json_quote(to, mrd_pb_text(of.bytes));
            else if (of.tag == PF_ARG_NAME_IID)
                mrd_json_quote(to,
                               mrd_strtab_get(p->te.strings, name_of(p, seq, PT_ARG_NAME, of.v)));
            else
                continue;
            mrd_buf_byte(to, ':');
            break;
        }
        json_value(p, seq, f.bytes, depth + 1, to);
    }
}

static void
json_value(pt *p, const pt_seq *seq, mrd_bytes value, unsigned depth, mrd_buf *to)
{
    mrd_bytes rest = value;
    size_t start = to->len;
    mrd_pb_item f;

    while (to->len == start && mrd_pb_take(&rest, &f)) {
        switch (f.tag) {
        case PF_ARG_BOOL:
            mrd_buf_text(to, f.v != 0 ? "true" : "false");
            break;
        case PF_ARG_UINT:
        case PF_ARG_POINTER:
            mrd_buf_u64(to, f.v);
            break;
        case PF_ARG_INT:
            mrd_buf_i64(to, (int64_t) f.v);
            break;
        case PF_ARG_DOUBLE:
            mrd_buf_fmt(to, "%.17g", as_double(f.v));
            break;
        case PF_ARG_STRING:
            mrd_json_quote(to, mrd_pb_text(f.bytes));
            break;
        case PF_ARG_STRING_IID:
            mrd_json_quote(to, mrd_strtab_get(p->te.strings, name_of(p, seq, PT_ARG_STRING, f.v)));
            break;
        case PF_ARG_ENTRY:
        case PF_ARG_ELEMENT:
            mrd_buf_byte(to, f.tag == PF_ARG_ENTRY ? '{' : '[');
            if (depth < JSON_DEPTH)
                json_items(p, seq, value, depth, to);
            mrd_buf_byte(to, f.tag == PF_ARG_ENTRY ? '}' : ']');
            break;
        default:
            break;
        }
    }
    if (to->len == start)
        mrd_buf_text(to, "null");
}

static void
add_argument(pt *p, const pt_seq *seq, mrd_sid key, const mrd_pb_item *f, mrd_bytes whole,
             bool is_json)
{
    mrd_args *args = p->te.args;
    char text[32];

    switch (f->tag) {
    case PF_ARG_BOOL:
        mrd_args_bool(args, key, f->v != 0);
        break;
    case PF_ARG_UINT:
        mrd_args_uint(args, key, f->v);
        break;
    case PF_ARG_INT:
        mrd_args_int(args, key, (int64_t) f->v);
        break;
    case PF_ARG_DOUBLE:
        mrd_args_double(args, key, as_double(f->v));
        break;
    case PF_ARG_POINTER:
        snprintf(text, sizeof(text), "0x%" PRIx64, f->v);
        mrd_args_str(args, key, mrd_str_of(text));
        break;
    case PF_ARG_STRING:
        if (is_json)
            mrd_args_json(args, key, valid_text(p, f->bytes));
        else
            mrd_args_str(args, key, valid_text(p, f->bytes));
        break;
    case PF_ARG_STRING_IID:
        mrd_args_sid(args, key, name_of(p, seq, PT_ARG_STRING, f->v));
        break;
    case PF_ARG_JSON:
        mrd_args_json(args, key, valid_text(p, f->bytes));
        break;
    default: /* an entry or an element */
        p->words.len = 0;
        json_value(p, seq, whole, 0, &p->words);
        if (p->words.err == MRD_OK)
            mrd_args_json(args, key, (mrd_str){ (const char *) p->words.p, p->words.len });
        break;
    }
}

static bool
is_argument_value(uint32_t tag)
{
    switch (tag) {
    case PF_ARG_BOOL:
    case PF_ARG_UINT:
    case PF_ARG_INT:
    case PF_ARG_DOUBLE:
    case PF_ARG_POINTER:
    case PF_ARG_STRING:
    case PF_ARG_STRING_IID:
    case PF_ARG_JSON:
    case PF_ARG_ENTRY:
    case PF_ARG_ELEMENT:
        return true;
    default:
        return false;
    }
}

/* Returns false if the annotation is damaged. */
static bool
take_annotation(pt *p, const pt_seq *seq, mrd_bytes annotation)
{
    mrd_bytes rest = annotation;
    mrd_sid key = MRD_SID_EMPTY;
    mrd_pb_item f, value = { 0 };
    bool is_json = false;

    while (mrd_pb_take(&rest, &f)) {
        if (f.tag == PF_ARG_NAME_IID)
            key = name_of(p, seq, PT_ARG_NAME, f.v);
        else if (f.tag == PF_ARG_NAME)
            key = p->is_own ? mrd_pt_own_key(p, mrd_pb_text(f.bytes))
                            : mrd_args_key(p->te.args, mrd_pb_text(f.bytes));
        else if (f.tag == PF_MERIDIAN_JSON)
            is_json = p->is_own;
        else if (is_argument_value(f.tag))
            value = f;
    }
    if (key != MRD_SID_EMPTY && value.tag != 0)
        add_argument(p, seq, key, &value, annotation, is_json);
    return rest.len == 0;
}

/* ---- The fields of an event ---- */

static void
add_category(pt *p, pt_event *e, mrd_sid category)
{
    mrd_str before = mrd_strtab_get(p->te.strings, e->category);

    if (before.len > 0) { /* several are one text, as in Trace Event JSON */
        p->words.len = 0;
        mrd_buf_str(&p->words, before);
        mrd_buf_byte(&p->words, ',');
        mrd_buf_str(&p->words, mrd_strtab_get(p->te.strings, category));
        category =
            mrd_strtab_add(p->te.strings, (mrd_str){ (const char *) p->words.p, p->words.len });
    }
    e->category = category;
}

static mrd_flow
point_of(const pt *p, uint64_t id, mrd_flow_dir dir)
{
    return (mrd_flow){ .id = mrd_flow_id((uint64_t) p->first_part + 1, 0x9f, id), .dir = dir };
}

/* Counts a point of an arrow, for its direction. */
static mrd_err
count_point(pt *p, mrd_flow point)
{
    mrd_map_key key = { point.id, 0, 0 };
    uint32_t n = mrd_map_get(&p->te.arrows, key);

    if (n == MRD_MAP_NONE && p->te.arrows.used >= PT_ARROWS_MAX) {
        p->beyond_arrows++;
        return MRD_OK;
    }
    n = n == MRD_MAP_NONE ? 0 : n;
    return n >= UINT32_MAX / 2 ? MRD_OK : mrd_map_put(&p->te.arrows, key, n + 2);
}

/* Meridian writes an arrow with several ends as several arrows that share a begin. Their ids follow
 * from the id of the first one. */
static mrd_err
add_own_arrow(pt *p, pt_event *e, uint64_t id)
{
    uint64_t base = mrd_pt_own_base(p, id);
    mrd_flow point = point_of(p, base, base == id ? MRD_FLOW_STEP : MRD_FLOW_END);

    if (e->n_flows > 0 && id == mrd_flow_end_id(e->base, e->n_fan + 1)) {
        e->n_fan++;
        return mrd_pt_own_fan(p, e->base, id);
    }
    e->base = id;
    e->n_fan = 0;
    point.ends = base != id;
    if (e->n_flows < TE_FLOWS_MAX)
        e->flows[e->n_flows++] = point;
    return base == id ? count_point(p, point) : MRD_OK;
}

static mrd_err
add_arrow(pt *p, pt_event *e, uint64_t id, bool is_end)
{
    mrd_flow point = point_of(p, id, is_end ? MRD_FLOW_END : MRD_FLOW_STEP);

    if (p->is_own)
        return add_own_arrow(p, e, id);
    if (e->n_flows < TE_FLOWS_MAX)
        e->flows[e->n_flows++] = point;
    return count_point(p, point);
}

static void
add_extra(pt_event *e, unsigned which, bool is_value, uint64_t v)
{
    unsigned *n = is_value ? &e->n_extra_value[which] : &e->n_extra_track[which];

    if (*n == EXTRA_MAX)
        return;
    if (is_value)
        e->extra_value[which][(*n)++] = v;
    else
        e->extra_track[which][(*n)++] = v;
}

static mrd_err
take_field(pt *p, const pt_seq *seq, const mrd_pb_item *f, pt_event *e)
{
    switch (f->tag) {
    case PF_EVENT_TYPE:
        e->type = f->v;
        break;
    case PF_EVENT_TRACK:
        e->track = f->v;
        break;
    case PF_EVENT_NAME_IID:
        e->name = name_of(p, seq, PT_NAME, f->v);
        break;
    case PF_EVENT_NAME:
        e->name = mrd_args_key(p->te.args, mrd_pb_text(f->bytes));
        break;
    case PF_EVENT_CATEGORY_IID:
        add_category(p, e, name_of(p, seq, PT_CATEGORY, f->v));
        break;
    case PF_EVENT_CATEGORY:
        add_category(p, e, mrd_args_key(p->te.args, mrd_pb_text(f->bytes)));
        break;
    case PF_EVENT_ANNOTATION:
        e->is_damaged = !take_annotation(p, seq, f->bytes) || e->is_damaged;
        break;
    case PF_EVENT_LEGACY:
        e->legacy = f->bytes;
        break;
    case PF_EVENT_COUNTER:
    case PF_EVENT_COUNTER_DOUBLE:
        e->has_value = true;
        e->is_double = f->tag == PF_EVENT_COUNTER_DOUBLE;
        e->value = f->v;
        break;
    case PF_EVENT_EXTRA_TRACK:
    case PF_EVENT_EXTRA_VALUE:
        add_extra(e, 0, f->tag == PF_EVENT_EXTRA_VALUE, f->v);
        break;
    case PF_EVENT_EXTRA_TRACK_DOUBLE:
    case PF_EVENT_EXTRA_VALUE_DOUBLE:
        add_extra(e, 1, f->tag == PF_EVENT_EXTRA_VALUE_DOUBLE, f->v);
        break;
    case PF_EVENT_FLOW:
    case PF_EVENT_FLOW_OLD:
    case PF_EVENT_FLOW_END:
    case PF_EVENT_FLOW_END_OLD:
        return add_arrow(p, e, f->v,
                         f->tag == PF_EVENT_FLOW_END || f->tag == PF_EVENT_FLOW_END_OLD);
    default:
        break;
    }
    return MRD_OK;
}

/* ---- Records ---- */

/* Returns the line of the event's track. Errors: LIMIT (counted), NOMEM. */
static mrd_err
line_of(pt *p, uint64_t uuid, bool counter, pt_track **ret_track, uint32_t *ret_line)
{
    pt_track *t = mrd_pt_track(p, uuid);
    mrd_err err = t == NULL ? (p->n_tracks == TE_LINES_MAX ? MRD_LIMIT : MRD_NOMEM)
                            : mrd_pt_line(p, t, counter, ret_line);

    *ret_track = t;
    if (err == MRD_LIMIT)
        mrd_pt_drop(p, "more different tracks than are kept");
    return err;
}

static mrd_err
put_counter(pt *p, uint64_t uuid, bool is_double, uint64_t bits, mrd_ev_ns ts, uint32_t bound_ns)
{
    mrd_event ev = { .ts = ts, .kind = MRD_COUNTER, .bound_ns = bound_ns };
    pt_track *t;
    uint32_t line;
    mrd_err err = line_of(p, uuid, true, &t, &line);

    if (err != MRD_OK)
        return err == MRD_LIMIT ? MRD_OK : err;
    if (!t->is_counter) {
        mrd_pt_drop(p, "a counter value on a track that is not declared as a counter before it");
        return MRD_OK;
    }
    if (p->is_own && t->own == UINT32_MAX) /* the bound of a clock, which the catalog states */
        return MRD_OK;
    if (is_double)
        ev.value = as_double(bits) * (double) t->multiplier;
    else {
        ev.flags = MRD_EV_INT;
        if (__builtin_mul_overflow((int64_t) bits, t->multiplier, &ev.ivalue))
            ev.ivalue = (int64_t) bits < 0 ? INT64_MIN : INT64_MAX;
    }
    if (t->incremental && is_double)
        ev.value = t->sum.value += ev.value;
    else if (t->incremental)
        ev.ivalue = t->sum.ivalue = mrd_sat_add(t->sum.ivalue, ev.ivalue);
    ev.track = mrd_te_track(&p->te.lines, line);
    ev.name =
        t->own != UINT32_MAX ? mrd_catalog_borrow_track(p->imp->catalog, t->own)->name : t->name;
    p->te.input->records++;
    return mrd_te_put(&p->te, &ev);
}

/* Emits the counter values of an event of any type. */
static mrd_err
put_values(pt *p, const pt_event *e, mrd_ev_ns ts, uint32_t bound_ns)
{
    mrd_err err = MRD_OK;

    if (e->type == PF_COUNTER && !e->has_value)
        mrd_pt_drop(p, "a counter event without a value");
    if (e->type == PF_COUNTER && e->has_value)
        err = put_counter(p, e->track, e->is_double, e->value, ts, bound_ns);
    for (unsigned which = 0; which < 2; which++)
        for (unsigned i = 0; err == MRD_OK && i < e->n_extra_value[which]; i++)
            if (i < e->n_extra_track[which])
                err = put_counter(p, e->extra_track[which][i], which == 1, e->extra_value[which][i],
                                  ts, bound_ns);
    return err;
}

/* Sets the type from the phase of an event of the older kind. Returns the duration of a complete
 * span, -1 for others. */
static mrd_dur_ns
take_legacy(pt *p, const pt_seq *seq, pt_event *e)
{
    mrd_bytes rest = e->legacy;
    uint64_t phase = 0, duration = 0;
    mrd_dur_ns dur;
    mrd_pb_item f;

    while (mrd_pb_take(&rest, &f)) {
        if (f.tag == PF_LEGACY_PHASE)
            phase = f.v;
        else if (f.tag == PF_LEGACY_DURATION_US)
            duration = f.v;
        else if (f.tag == PF_LEGACY_NAME_IID && e->name == MRD_SID_EMPTY)
            e->name = name_of(p, seq, PT_NAME, f.v);
    }
    e->type = phase == 'B'                                   ? PF_BEGIN
              : phase == 'E'                                 ? PF_END
              : phase == 'I' || phase == 'i' || phase == 'R' ? PF_INSTANT
                                                             : 0;
    return phase == 'X' && !__builtin_mul_overflow(duration, 1000u, &dur) ? dur : -1;
}

/* A state ends the state before it. */
static mrd_err
keep_state(pt *p, mrd_event *ev, pt_track *t, uint32_t line)
{
    mrd_event end = { .ts = ev->ts, .bound_ns = ev->bound_ns };
    mrd_err err = t->is_open_state ? mrd_te_later(&p->te, &end, TE_END, line, TE_NONE) : MRD_OK;

    t->is_open_state = ev->name != MRD_SID_EMPTY;
    return err != MRD_OK || !t->is_open_state ? err
                                              : mrd_te_later(&p->te, ev, TE_BEGIN, line, TE_NONE);
}

static mrd_err
put_record(pt *p, const pt_event *e, mrd_dur_ns whole, mrd_ev_ns ts, uint32_t bound_ns)
{
    mrd_event ev = { .ts = ts, .name = e->name, .category = e->category };
    pt_track *t;
    uint32_t line;
    size_t n;
    mrd_err err = line_of(p, e->track, false, &t, &line);

    if (err != MRD_OK)
        return err == MRD_LIMIT ? MRD_OK : err;
    ev.args = mrd_args_view(p->te.args, &n);
    ev.arg_count = (uint32_t) n;
    ev.flows = e->flows;
    ev.flow_count = e->n_flows;
    if (bound_ns > p->te.lines.lines[line].bound_ns)
        p->te.lines.lines[line].bound_ns = bound_ns;
    t->is_torch = t->is_torch || (ev.category != MRD_SID_EMPTY && ev.category == p->key_torch);
    if (whole >= 0 || e->type == PF_BEGIN)
        mrd_te_look(&p->te, ev.category, line);
    if (whole >= 0) {
        ev.dur_ns = whole;
        return mrd_te_later(&p->te, &ev, TE_WHOLE, line, TE_NONE);
    }
    switch (e->type) {
    case PF_BEGIN:
        return mrd_te_later(&p->te, &ev, TE_BEGIN, line, TE_NONE);
    case PF_END:
        return mrd_te_later(&p->te, &ev, TE_END, line, TE_NONE);
    case PF_INSTANT:
        return mrd_te_later(&p->te, &ev, TE_MARK, line, TE_NONE);
    default:
        return keep_state(p, &ev, t, line);
    }
}

mrd_err
mrd_pt_event(pt *p, pt_seq *seq, const pt_packet *packet)
{
    pt_event e;
    mrd_bytes rest = packet->event;
    mrd_dur_ns whole = -1;
    mrd_ev_ns ts;
    uint32_t bound_ns;
    mrd_pb_item f;
    mrd_err err = MRD_OK;

    memset(&e, 0, offsetof(pt_event, flows)); /* the flows are many, and counted */
    e.track = seq->track;
    if (!packet->has_time || !mrd_pt_time(p, packet, seq, &ts, &bound_ns)) {
        mrd_pt_drop(p, packet->has_time ? "an event of a clock that no snapshot before it relates "
                                          "to the clock of the trace"
                                        : "an event without a time");
        return MRD_OK;
    }
    mrd_args_reset(p->te.args);
    while (err == MRD_OK && mrd_pb_take(&rest, &f))
        err = take_field(p, seq, &f, &e);
    if (err == MRD_OK)
        err = p->words.err != MRD_OK ? p->words.err : mrd_args_err(p->te.args);
    if (err != MRD_OK)
        return err;
    if (rest.len > 0 || e.is_damaged) {
        mrd_pt_drop(p, "a damaged event");
        return MRD_OK;
    }
    if (e.legacy.p != NULL && e.type == 0)
        whole = take_legacy(p, seq, &e);
    err = put_values(p, &e, ts, bound_ns);
    if (err != MRD_OK || e.type == PF_COUNTER)
        return err;
    if (whole < 0 && (e.type == 0 || e.type > TYPE_STATE)) {
        mrd_pt_drop(p, "an event of a type that is not read");
        return MRD_OK;
    }
    return put_record(p, &e, whole, ts, bound_ns);
}
