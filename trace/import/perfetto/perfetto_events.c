/*
 * trace/import/perfetto/perfetto_events.c - reads the events of a Perfetto trace, with their names,
 * arguments, counter values and arrows. The format does not state the direction of an arrow. So the
 * first point of an arrow by time is its start, and the last one its end.
 */
#include "trace/import/perfetto/perfetto_int.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/conf/json.h"
#include "base/num.h"

#define JSON_DEPTH 32 /* maximum nesting of arguments */
#define EXTRA_MAX  8  /* maximum number of additional counter values per event, as in Perfetto */
#define TYPE_STATE 5  /* event type "state" of Perfetto, which Meridian does not write */

/* The fields of a TrackEvent message, except its arguments, which are in te.args. */
typedef struct {
    uint64_t type, track;
    mrd_sid name, category;
    bool has_value, is_double, is_damaged;
    uint64_t value; /* value of a counter, as bits of an integer or double */
    /* track uuids and values of additional counters: [0] integers, [1] doubles */
    uint64_t extra_track[2][EXTRA_MAX], extra_value[2][EXTRA_MAX];
    unsigned n_extra_track[2], n_extra_value[2];
    mrd_bytes legacy;
    /* for Meridian's own traces: id of the latest flow arrow of the event, and number of its
     * further ends */
    uint64_t base;
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
mrd_pt_interned(pt *import, pt_seq *seq, mrd_bytes interned)
{
    mrd_pb_item item, of;

    while (mrd_pb_take(&interned, &item)) {
        pt_kind kind = item.tag == PF_INTERN_CATEGORY   ? PT_CATEGORY
                       : item.tag == PF_INTERN_NAME     ? PT_NAME
                       : item.tag == PF_INTERN_ARG_NAME ? PT_ARG_NAME
                                                        : PT_ARG_STRING;
        mrd_bytes text = { NULL, 0 };
        uint64_t iid = 0;

        if (kind == PT_ARG_STRING && item.tag != PF_INTERN_ARG_STRING)
            continue;
        while (mrd_pb_take(&item.bytes, &of)) {
            if (of.tag == PF_INTERN_IID)
                iid = of.v;
            else if (of.tag == PF_INTERN_TEXT)
                text = of.bytes;
        }
        if (import->n_names == PT_NAMES_MAX)
            /* the text was dropped, so name_of() makes up a name from its number */
            return MRD_OK;
        if (mrd_map_put(&seq->names, name_key(kind, iid),
                        mrd_strtab_add(import->te.strings, mrd_pb_text(text))) != MRD_OK)
            return MRD_NOMEM;
        seq->n_names++;
        import->n_names++;
    }
    return MRD_OK;
}

/* Returns the interned text with this number in the packet sequence. If the text is missing,
 * returns a name that contains the number. */
static mrd_sid
name_of(pt *import, const pt_seq *seq, pt_kind kind, uint64_t iid)
{
    uint32_t sid = mrd_map_get(&seq->names, name_key(kind, iid));
    char text[64];

    if (sid != MRD_MAP_NONE)
        return sid;
    import->nameless++;
    snprintf(text, sizeof(text), "(name %" PRIu64 " is missing)", iid);
    return mrd_strtab_addz(import->te.strings, text);
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
valid_text(pt *import, mrd_bytes bytes)
{
    mrd_str text = mrd_pb_text(bytes);

    return mrd_utf8_valid(text, NULL)
               ? text
               : mrd_strtab_get(import->te.strings, mrd_strtab_add(import->te.strings, text));
}

static void json_value(pt *import, const pt_seq *seq, mrd_bytes value, unsigned depth, mrd_buf *to);

/* Appends the entries of a nested argument (an object or an array) as JSON. */
static void
json_items(pt *import, const pt_seq *seq, mrd_bytes value, unsigned depth, mrd_buf *to)
{
    bool any = false;
    mrd_pb_item item, of;

    while (mrd_pb_take(&value, &item)) {
        mrd_bytes rest = item.bytes;

        if (item.tag != PF_ARG_ENTRY && item.tag != PF_ARG_ELEMENT)
            continue;
        if (any)
            mrd_buf_byte(to, ',');
        any = true;
        while (item.tag == PF_ARG_ENTRY && mrd_pb_take(&rest, &of)) {
            if (of.tag == PF_ARG_NAME)
                mrd_json_quote(to, mrd_pb_text(of.bytes));
            else if (of.tag == PF_ARG_NAME_IID)
                mrd_json_quote(to, mrd_strtab_get(import->te.strings,
                                                  name_of(import, seq, PT_ARG_NAME, of.v)));
            else
                continue;
            mrd_buf_byte(to, ':');
            break;
        }
        json_value(import, seq, item.bytes, depth + 1, to);
    }
}

static void
json_value(pt *import, const pt_seq *seq, mrd_bytes value, unsigned depth, mrd_buf *to)
{
    mrd_bytes rest = value;
    size_t start = to->len;
    mrd_pb_item item;

    while (to->len == start && mrd_pb_take(&rest, &item)) {
        switch (item.tag) {
        case PF_ARG_BOOL:
            mrd_buf_text(to, item.v != 0 ? "true" : "false");
            break;
        case PF_ARG_UINT:
        case PF_ARG_POINTER:
            mrd_buf_u64(to, item.v);
            break;
        case PF_ARG_INT:
            mrd_buf_i64(to, (int64_t) item.v);
            break;
        case PF_ARG_DOUBLE:
            mrd_buf_fmt(to, "%.17g", as_double(item.v));
            break;
        case PF_ARG_STRING:
            mrd_json_quote(to, mrd_pb_text(item.bytes));
            break;
        case PF_ARG_STRING_IID:
            mrd_json_quote(to, mrd_strtab_get(import->te.strings,
                                              name_of(import, seq, PT_ARG_STRING, item.v)));
            break;
        case PF_ARG_ENTRY:
        case PF_ARG_ELEMENT:
            mrd_buf_byte(to, item.tag == PF_ARG_ENTRY ? '{' : '[');
            if (depth < JSON_DEPTH)
                json_items(import, seq, value, depth, to);
            mrd_buf_byte(to, item.tag == PF_ARG_ENTRY ? '}' : ']');
            break;
        default:
            break;
        }
    }
    if (to->len == start)
        mrd_buf_text(to, "null");
}

static void
add_argument(pt *import, const pt_seq *seq, mrd_sid key, const mrd_pb_item *item, mrd_bytes whole,
             bool is_json)
{
    mrd_args *args = import->te.args;
    char text[32];

    switch (item->tag) {
    case PF_ARG_BOOL:
        mrd_args_bool(args, key, item->v != 0);
        break;
    case PF_ARG_UINT:
        mrd_args_uint(args, key, item->v);
        break;
    case PF_ARG_INT:
        mrd_args_int(args, key, (int64_t) item->v);
        break;
    case PF_ARG_DOUBLE:
        mrd_args_double(args, key, as_double(item->v));
        break;
    case PF_ARG_POINTER:
        snprintf(text, sizeof(text), "0x%" PRIx64, item->v);
        mrd_args_str(args, key, mrd_str_of(text));
        break;
    case PF_ARG_STRING:
        if (is_json)
            mrd_args_json(args, key, valid_text(import, item->bytes));
        else
            mrd_args_str(args, key, valid_text(import, item->bytes));
        break;
    case PF_ARG_STRING_IID:
        mrd_args_sid(args, key, name_of(import, seq, PT_ARG_STRING, item->v));
        break;
    case PF_ARG_JSON:
        mrd_args_json(args, key, valid_text(import, item->bytes));
        break;
    default: /* an entry of an object, or an element of an array */
        import->words.len = 0;
        json_value(import, seq, whole, 0, &import->words);
        if (import->words.err == MRD_OK)
            mrd_args_json(args, key,
                          (mrd_str){ (const char *) import->words.p, import->words.len });
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

/* Reads an annotation as an argument. Returns false if the annotation is damaged. */
static bool
take_annotation(pt *import, const pt_seq *seq, mrd_bytes annotation)
{
    mrd_bytes rest = annotation;
    mrd_sid key = MRD_SID_EMPTY;
    mrd_pb_item item, value = { 0 };
    bool is_json = false;

    while (mrd_pb_take(&rest, &item)) {
        if (item.tag == PF_ARG_NAME_IID)
            key = name_of(import, seq, PT_ARG_NAME, item.v);
        else if (item.tag == PF_ARG_NAME)
            key = import->is_own ? mrd_pt_own_key(import, mrd_pb_text(item.bytes))
                                 : mrd_args_key(import->te.args, mrd_pb_text(item.bytes));
        else if (item.tag == PF_MERIDIAN_JSON)
            is_json = import->is_own;
        else if (is_argument_value(item.tag))
            value = item;
    }
    if (key != MRD_SID_EMPTY && value.tag != 0)
        add_argument(import, seq, key, &value, annotation, is_json);
    return rest.len == 0;
}

/* ---- The fields of an event ---- */

static void
add_category(pt *import, pt_event *event, mrd_sid category)
{
    mrd_str before = mrd_strtab_get(import->te.strings, event->category);

    /* several categories become one text, separated by commas, as in Trace Event JSON */
    if (before.len > 0) {
        import->words.len = 0;
        mrd_buf_str(&import->words, before);
        mrd_buf_byte(&import->words, ',');
        mrd_buf_str(&import->words, mrd_strtab_get(import->te.strings, category));
        category = mrd_strtab_add(import->te.strings,
                                  (mrd_str){ (const char *) import->words.p, import->words.len });
    }
    event->category = category;
}

static mrd_flow
point_of(const pt *import, uint64_t id, mrd_flow_dir dir)
{
    return (mrd_flow){ .id = mrd_flow_id((uint64_t) import->first_part + 1, 0x9f, id), .dir = dir };
}

/* Counts the points of a flow arrow. After all events were counted, the count tells which point is
 * the first and which is the last. */
static mrd_err
count_point(pt *import, mrd_flow point)
{
    mrd_map_key key = { point.id, 0, 0 };
    uint32_t n = mrd_map_get(&import->te.arrows, key);

    if (n == MRD_MAP_NONE && import->te.arrows.used >= PT_ARROWS_MAX) {
        import->beyond_arrows++;
        return MRD_OK;
    }
    n = n == MRD_MAP_NONE ? 0 : n;
    return n >= UINT32_MAX / 2 ? MRD_OK : mrd_map_put(&import->te.arrows, key, n + 2);
}

/* Adds a point of a flow arrow to an event of a trace that Meridian wrote. Meridian's writer splits
 * an arrow with several ends into arrows with one end each. Their ids are derived from the first
 * one's id, so they can be joined again. */
static mrd_err
add_own_arrow(pt *import, pt_event *event, uint64_t id)
{
    uint64_t base = mrd_pt_own_base(import, id);
    mrd_flow point = point_of(import, base, base == id ? MRD_FLOW_STEP : MRD_FLOW_END);

    if (event->n_flows > 0 && id == mrd_flow_end_id(event->base, event->n_fan + 1)) {
        event->n_fan++;
        return mrd_pt_own_fan(import, event->base, id);
    }
    event->base = id;
    event->n_fan = 0;
    point.ends = base != id;
    if (event->n_flows < TE_FLOWS_MAX)
        event->flows[event->n_flows++] = point;
    return base == id ? count_point(import, point) : MRD_OK;
}

static mrd_err
add_arrow(pt *import, pt_event *event, uint64_t id, bool is_end)
{
    mrd_flow point = point_of(import, id, is_end ? MRD_FLOW_END : MRD_FLOW_STEP);

    if (import->is_own)
        return add_own_arrow(import, event, id);
    if (event->n_flows < TE_FLOWS_MAX)
        event->flows[event->n_flows++] = point;
    return count_point(import, point);
}

static void
add_extra(pt_event *event, unsigned which, bool is_value, uint64_t v)
{
    unsigned *n = is_value ? &event->n_extra_value[which] : &event->n_extra_track[which];

    if (*n == EXTRA_MAX)
        return;
    if (is_value)
        event->extra_value[which][(*n)++] = v;
    else
        event->extra_track[which][(*n)++] = v;
}

static mrd_err
take_field(pt *import, const pt_seq *seq, const mrd_pb_item *item, pt_event *event)
{
    switch (item->tag) {
    case PF_EVENT_TYPE:
        event->type = item->v;
        break;
    case PF_EVENT_TRACK:
        event->track = item->v;
        break;
    case PF_EVENT_NAME_IID:
        event->name = name_of(import, seq, PT_NAME, item->v);
        break;
    case PF_EVENT_NAME:
        event->name = mrd_args_key(import->te.args, mrd_pb_text(item->bytes));
        break;
    case PF_EVENT_CATEGORY_IID:
        add_category(import, event, name_of(import, seq, PT_CATEGORY, item->v));
        break;
    case PF_EVENT_CATEGORY:
        add_category(import, event, mrd_args_key(import->te.args, mrd_pb_text(item->bytes)));
        break;
    case PF_EVENT_ANNOTATION:
        event->is_damaged = !take_annotation(import, seq, item->bytes) || event->is_damaged;
        break;
    case PF_EVENT_LEGACY:
        event->legacy = item->bytes;
        break;
    case PF_EVENT_COUNTER:
    case PF_EVENT_COUNTER_DOUBLE:
        event->has_value = true;
        event->is_double = item->tag == PF_EVENT_COUNTER_DOUBLE;
        event->value = item->v;
        break;
    case PF_EVENT_EXTRA_TRACK:
    case PF_EVENT_EXTRA_VALUE:
        add_extra(event, 0, item->tag == PF_EVENT_EXTRA_VALUE, item->v);
        break;
    case PF_EVENT_EXTRA_TRACK_DOUBLE:
    case PF_EVENT_EXTRA_VALUE_DOUBLE:
        add_extra(event, 1, item->tag == PF_EVENT_EXTRA_VALUE_DOUBLE, item->v);
        break;
    case PF_EVENT_FLOW:
    case PF_EVENT_FLOW_OLD:
    case PF_EVENT_FLOW_END:
    case PF_EVENT_FLOW_END_OLD:
        return add_arrow(import, event, item->v,
                         item->tag == PF_EVENT_FLOW_END || item->tag == PF_EVENT_FLOW_END_OLD);
    default:
        break;
    }
    return MRD_OK;
}

/* ---- Records ---- */

/* Finds the event's track and the te_line of the track. Errors: LIMIT (the event is counted as
 * dropped), NOMEM. */
static mrd_err
line_of(pt *import, uint64_t uuid, bool counter, pt_track **ret_track, uint32_t *ret_line)
{
    pt_track *track = mrd_pt_track(import, uuid);
    mrd_err err = track == NULL ? (import->n_tracks == TE_LINES_MAX ? MRD_LIMIT : MRD_NOMEM)
                                : mrd_pt_line(import, track, counter, ret_line);

    *ret_track = track;
    if (err == MRD_LIMIT)
        mrd_pt_drop(import, "more different tracks than are kept");
    return err;
}

static mrd_err
put_counter(pt *import, uint64_t uuid, bool is_double, uint64_t bits, mrd_ev_ns ts,
            uint32_t bound_ns)
{
    mrd_event ev = { .ts = ts, .kind = MRD_COUNTER, .bound_ns = bound_ns };
    pt_track *track;
    uint32_t line;
    mrd_err err = line_of(import, uuid, true, &track, &line);

    if (err != MRD_OK)
        return err == MRD_LIMIT ? MRD_OK : err;
    if (!track->is_counter) {
        mrd_pt_drop(import,
                    "a counter value on a track that is not declared as a counter before it");
        return MRD_OK;
    }
    /* this counter shows a clock's error bound, which the catalog already states */
    if (import->is_own && track->own == UINT32_MAX)
        return MRD_OK;
    if (is_double)
        ev.value = as_double(bits) * (double) track->multiplier;
    else {
        ev.flags = MRD_EV_INT;
        if (__builtin_mul_overflow((int64_t) bits, track->multiplier, &ev.ivalue))
            ev.ivalue = (int64_t) bits < 0 ? INT64_MIN : INT64_MAX;
    }
    if (track->incremental && is_double)
        ev.value = track->sum.value += ev.value;
    else if (track->incremental)
        ev.ivalue = track->sum.ivalue = mrd_sat_add(track->sum.ivalue, ev.ivalue);
    ev.track = mrd_te_track(&import->te.lines, line);
    ev.name = track->own != UINT32_MAX
                  ? mrd_catalog_borrow_track(import->imp->catalog, track->own)->name
                  : track->name;
    import->te.input->records++;
    return mrd_te_put(&import->te, &ev);
}

/* Emits the counter values of the event as samples. Events of any type can have additional
 * values. */
static mrd_err
put_values(pt *import, const pt_event *event, mrd_ev_ns ts, uint32_t bound_ns)
{
    mrd_err err = MRD_OK;

    if (event->type == PF_COUNTER && !event->has_value)
        mrd_pt_drop(import, "a counter event without a value");
    if (event->type == PF_COUNTER && event->has_value)
        err = put_counter(import, event->track, event->is_double, event->value, ts, bound_ns);
    for (unsigned which = 0; which < 2; which++)
        for (unsigned i = 0; err == MRD_OK && i < event->n_extra_value[which]; i++)
            if (i < event->n_extra_track[which])
                err = put_counter(import, event->extra_track[which][i], which == 1,
                                  event->extra_value[which][i], ts, bound_ns);
    return err;
}

/* Converts the phase of a legacy event (as in Trace Event JSON) to a type. Returns the duration in
 * ns of a complete span (phase 'X'). Returns -1 for other phases. */
static mrd_dur_ns
take_legacy(pt *import, const pt_seq *seq, pt_event *event)
{
    mrd_bytes rest = event->legacy;
    uint64_t phase = 0, duration = 0;
    mrd_dur_ns dur;
    mrd_pb_item item;

    while (mrd_pb_take(&rest, &item)) {
        if (item.tag == PF_LEGACY_PHASE)
            phase = item.v;
        else if (item.tag == PF_LEGACY_DURATION_US)
            duration = item.v;
        else if (item.tag == PF_LEGACY_NAME_IID && event->name == MRD_SID_EMPTY)
            event->name = name_of(import, seq, PT_NAME, item.v);
    }
    event->type = phase == 'B'                                   ? PF_BEGIN
                  : phase == 'E'                                 ? PF_END
                  : phase == 'I' || phase == 'i' || phase == 'R' ? PF_INSTANT
                                                                 : 0;
    return phase == 'X' && !__builtin_mul_overflow(duration, 1000u, &dur) ? dur : -1;
}

/* Ends the current state span of the track and begins the next one. A state without a name only
 * ends the current one. */
static mrd_err
keep_state(pt *import, mrd_event *ev, pt_track *track, uint32_t line)
{
    mrd_event end = { .ts = ev->ts, .bound_ns = ev->bound_ns };
    mrd_err err =
        track->is_open_state ? mrd_te_later(&import->te, &end, TE_END, line, TE_NONE) : MRD_OK;

    track->is_open_state = ev->name != MRD_SID_EMPTY;
    return err != MRD_OK || !track->is_open_state
               ? err
               : mrd_te_later(&import->te, ev, TE_BEGIN, line, TE_NONE);
}

static mrd_err
put_record(pt *import, const pt_event *event, mrd_dur_ns whole, mrd_ev_ns ts, uint32_t bound_ns)
{
    mrd_event ev = { .ts = ts, .name = event->name, .category = event->category };
    pt_track *track;
    uint32_t line;
    size_t n;
    mrd_err err = line_of(import, event->track, false, &track, &line);

    if (err != MRD_OK)
        return err == MRD_LIMIT ? MRD_OK : err;
    ev.args = mrd_args_view(import->te.args, &n);
    ev.arg_count = (uint32_t) n;
    ev.flows = event->flows;
    ev.flow_count = event->n_flows;
    if (bound_ns > import->te.lines.lines[line].bound_ns)
        import->te.lines.lines[line].bound_ns = bound_ns;
    track->is_torch =
        track->is_torch || (ev.category != MRD_SID_EMPTY && ev.category == import->key_torch);
    if (whole >= 0 || event->type == PF_BEGIN)
        mrd_te_look(&import->te, ev.category, line);
    if (whole >= 0) {
        ev.dur_ns = whole;
        return mrd_te_later(&import->te, &ev, TE_WHOLE, line, TE_NONE);
    }
    switch (event->type) {
    case PF_BEGIN:
        return mrd_te_later(&import->te, &ev, TE_BEGIN, line, TE_NONE);
    case PF_END:
        return mrd_te_later(&import->te, &ev, TE_END, line, TE_NONE);
    case PF_INSTANT:
        return mrd_te_later(&import->te, &ev, TE_MARK, line, TE_NONE);
    default:
        return keep_state(import, &ev, track, line);
    }
}

mrd_err
mrd_pt_event(pt *import, pt_seq *seq, const pt_packet *packet)
{
    pt_event event;
    mrd_bytes rest = packet->event;
    mrd_dur_ns whole = -1;
    mrd_ev_ns ts;
    uint32_t bound_ns;
    mrd_pb_item item;
    mrd_err err = MRD_OK;

    /* do not clear the array of flows: it is large, and n_flows says how many are valid */
    memset(&event, 0, offsetof(pt_event, flows));
    event.track = seq->track;
    if (!packet->has_time || !mrd_pt_time(import, packet, seq, &ts, &bound_ns)) {
        mrd_pt_drop(import, packet->has_time
                                ? "an event of a clock that no snapshot before it relates "
                                  "to the clock of the trace"
                                : "an event without a time");
        return MRD_OK;
    }
    mrd_args_reset(import->te.args);
    while (err == MRD_OK && mrd_pb_take(&rest, &item))
        err = take_field(import, seq, &item, &event);
    if (err == MRD_OK)
        err = import->words.err != MRD_OK ? import->words.err : mrd_args_err(import->te.args);
    if (err != MRD_OK)
        return err;
    if (rest.len > 0 || event.is_damaged) {
        mrd_pt_drop(import, "a damaged event");
        return MRD_OK;
    }
    if (event.legacy.p != NULL && event.type == 0)
        whole = take_legacy(import, seq, &event);
    err = put_values(import, &event, ts, bound_ns);
    if (err != MRD_OK || event.type == PF_COUNTER)
        return err;
    if (whole < 0 && (event.type == 0 || event.type > TYPE_STATE)) {
        mrd_pt_drop(import, "an event of a type that is not read");
        return MRD_OK;
    }
    return put_record(import, &event, whole, ts, bound_ns);
}
