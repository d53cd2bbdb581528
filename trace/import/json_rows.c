#include "trace/import/json_rows.h"

#include "base/num.h"
#include "base/obj.h"

_Static_assert(MRD_ROW_FIELDS <= 64, "the fields of a row fit a word");

static const mrd_row_key *
key_find(const mrd_row_key *keys, mrd_str key)
{
    for (; keys->key != NULL; keys++) {
        if (keys->key[0] == (key.len > 0 ? key.p[0] : '\0') && mrd_str_is(key, keys->key))
            return keys;
    }
    return NULL;
}

static bool
take_text(mrd_json_row *row, mrd_row_field field, mrd_jr_type type, mrd_str text)
{
    double d;

    if ((type != MRD_JR_NUMBER && type != MRD_JR_STRING) || text.len == 0 ||
        text.len > MRD_ROW_TEXT_MAX)
        return false;
    if (type == MRD_JR_STRING && mrd_num_double(text, &d) != MRD_OK)
        return false;
    memcpy(row->text[field], text.p, text.len);
    row->text_len[field] = (uint8_t) text.len;
    return true;
}

static bool
take_int(mrd_json_row *row, mrd_row_field field, mrd_jr_type type, mrd_str text)
{
    if (type != MRD_JR_NUMBER && type != MRD_JR_STRING)
        return false;
    return mrd_num_i64(text, &row->number[field - MRD_ROW_TEXTS]) == MRD_OK;
}

static bool
take_bound(mrd_json_row *row, mrd_jr_type type, mrd_str text)
{
    uint64_t v;

    if (type == MRD_JR_NULL) {
        row->bound_ns = MRD_BOUND_UNKNOWN;
        return true;
    }
    if (type != MRD_JR_NUMBER || mrd_num_u64(text, &v) != MRD_OK)
        return false;
    row->bound_ns = v >= MRD_BOUND_UNKNOWN ? MRD_BOUND_UNKNOWN - 1 : (uint32_t) v;
    return true;
}

/* Stores the id of a flow arrow of the row. The vendor's row has ids and directions as two arrays
 * with equal indexes. So an invalid id takes an element, too. */
static void
take_flow(mrd_json_row *row, mrd_jr_type type, mrd_str text)
{
    uint64_t id = 0;
    bool taken =
        (type == MRD_JR_STRING || type == MRD_JR_NUMBER) && mrd_num_u64(text, &id) == MRD_OK;

    if (row->n_flow_ids < MRD_ROW_FLOWS) {
        row->flow_taken[row->n_flow_ids] = taken;
        row->flow_id[row->n_flow_ids++] = id;
    } else {
        taken = false;
    }
    row->flows_refused += !taken && type != MRD_JR_NULL;
}

static mrd_err
take_flows(mrd_json_row *row, mrd_json_reader *reader, mrd_row_field field)
{
    mrd_jr_type type;
    mrd_str text;

    mrd_json_enter(reader);
    while ((type = mrd_json_next(reader, NULL, &text)) != MRD_JR_END) {
        if (type == MRD_JR_ERROR)
            return mrd_json_reader_err(reader, NULL);
        if (type != MRD_JR_STRING && type != MRD_JR_NUMBER)
            text = (mrd_str){ 0 };
        if (field == MRD_ROW_FLOW_ID)
            take_flow(row, type, text);
        else if (row->n_flow_dirs < MRD_ROW_FLOWS)
            row->flow_dir[row->n_flow_dirs++] = mrd_str_is(text, "start") ? MRD_FLOW_START
                                                : mrd_str_is(text, "end") ? MRD_FLOW_END
                                                                          : MRD_FLOW_STEP;
    }
    return MRD_OK;
}

static mrd_err
take_args(mrd_json_row *row, mrd_json_reader *reader, mrd_strtab *strings)
{
    mrd_jr_type type;
    mrd_str key, text;
    mrd_err err = MRD_OK;

    mrd_json_enter(reader);
    while (err == MRD_OK && (type = mrd_json_next(reader, &key, &text)) != MRD_JR_END) {
        if (type == MRD_JR_ERROR)
            return mrd_json_reader_err(reader, NULL);
        err = mrd_args_value(row->args, mrd_strtab_add(strings, key), reader, type, text);
    }
    return err;
}

/* Stores a value in a field of the row. Returns false if the value does not fit, and the caller
 * then stores it as an argument. If the reader fails, sets *ret_err and returns true. */
static bool
take(mrd_json_row *row, mrd_json_reader *reader, mrd_row_field field, mrd_jr_type type,
     mrd_str text, mrd_strtab *strings, mrd_err *ret_err)
{
    if (field < MRD_ROW_TEXTS)
        return take_text(row, field, type, text);
    if (field < MRD_ROW_INTS) {
        if (take_int(row, field, type, text))
            return true;
        if (field != MRD_ROW_PROCESS || type != MRD_JR_STRING)
            return false;
        row->sid[MRD_ROW_PROCESS_NAME - MRD_ROW_INTS] = mrd_strtab_add(strings, text);
        row->has |= UINT64_C(1) << MRD_ROW_PROCESS_NAME;
        return true;
    }
    if (field < MRD_ROW_SIDS) {
        if (type != MRD_JR_STRING)
            return false;
        row->sid[field - MRD_ROW_INTS] = mrd_strtab_add(strings, text);
        return true;
    }
    if (field < MRD_ROW_BOOLS) {
        row->flag[field - MRD_ROW_SIDS] = type == MRD_JR_TRUE;
        return type == MRD_JR_TRUE || type == MRD_JR_FALSE;
    }
    switch (field) {
    case MRD_ROW_ID:
        return (type == MRD_JR_NUMBER || type == MRD_JR_STRING) &&
               mrd_num_u64(text, &row->id) == MRD_OK;
    case MRD_ROW_BOUND:
        return take_bound(row, type, text);
    case MRD_ROW_FLOW_ID:
    case MRD_ROW_FLOW_DIR:
        if (type != MRD_JR_ARRAY)
            return false;
        *ret_err = take_flows(row, reader, field);
        return true;
    case MRD_ROW_ARGS:
        if (type != MRD_JR_OBJECT)
            return false;
        *ret_err = take_args(row, reader, strings);
        return true;
    default:
        return false;
    }
}

mrd_err
mrd_row_read(mrd_json_row *row, mrd_json_reader *reader, const mrd_row_key *keys,
             mrd_strtab *strings)
{
    mrd_jr_type type;
    mrd_str key, text;

    row->has = 0;
    row->n_flow_ids = row->n_flow_dirs = row->flows_refused = 0;
    row->offset = mrd_json_reader_offset(reader);
    mrd_args_reset(row->args);
    mrd_json_enter(reader);
    while ((type = mrd_json_next(reader, &key, &text)) != MRD_JR_END) {
        const mrd_row_key *row_key;
        mrd_err err = MRD_OK;
        int64_t v;

        if (type == MRD_JR_ERROR)
            return mrd_json_reader_err(reader, NULL);
        row_key = key_find(keys, key);
        if (row_key != NULL && row_key->field == MRD_ROW_NUMBER_ARG) {
            uint64_t u;
            mrd_sid sid = mrd_strtab_add(strings, key);

            if (type == MRD_JR_STRING && mrd_num_i64(text, &v) == MRD_OK)
                mrd_args_int(row->args, sid, v);
            else if (type == MRD_JR_STRING && mrd_num_u64(text, &u) == MRD_OK)
                mrd_args_uint(row->args, sid, u);
            else
                err = mrd_args_value(row->args, sid, reader, type, text);
        } else if (row_key != NULL && !mrd_row_has(row, row_key->field) &&
                   take(row, reader, row_key->field, type, text, strings, &err)) {
            bool named =
                row_key->field == MRD_ROW_PROCESS && mrd_row_has(row, MRD_ROW_PROCESS_NAME);

            if (!named)
                row->has |= UINT64_C(1) << row_key->field;
        } else {
            err = mrd_args_value(row->args, mrd_strtab_add(strings, key), reader, type, text);
        }
        if (err != MRD_OK)
            return err;
    }
    return mrd_args_err(row->args);
}

mrd_err
mrd_rows_read(mrd_import *imp, mrd_json_reader *reader, mrd_str section, mrd_err (*row)(void *self),
              void *self)
{
    unsigned depth;
    mrd_jr_type type;
    mrd_err err;

    mrd_json_enter(reader);
    depth = mrd_json_depth(reader);
    while ((type = mrd_json_next(reader, NULL, NULL)) != MRD_JR_END) {
        if (type == MRD_JR_OBJECT) {
            mrd_json_mark(reader, mrd_json_reader_offset(reader), depth);
            err = row(self);
        } else {
            err = mrd_json_reader_err(reader, NULL);
        }
        if (err != MRD_OK && !mrd_import_resume(imp, reader, depth))
            return err;
        if (err != MRD_OK || type == MRD_JR_OBJECT)
            continue;
        mrd_import_input(imp)->records++;
        mrd_import_drop(imp, mrd_json_reader_offset(reader),
                        MRD_STR_FMT " holds %s where an object belongs", MRD_STR_ARG(section),
                        mrd_jr_type_text(type));
    }
    return MRD_OK;
}

bool
mrd_row_sample(mrd_str number, mrd_event *ev)
{
    uint64_t u;

    ev->flags &= (uint8_t) ~(MRD_EV_INT | MRD_EV_UNSIGNED);
    if (mrd_num_i64(number, &ev->ivalue) == MRD_OK) {
        ev->flags |= MRD_EV_INT;
        return true;
    }
    if (memchr(number.p, 'x', number.len) == NULL && mrd_num_u64(number, &u) == MRD_OK) {
        ev->ivalue = (int64_t) u;
        ev->flags |= MRD_EV_INT | MRD_EV_UNSIGNED;
        return true;
    }
    return mrd_num_double(number, &ev->value) == MRD_OK;
}

void
mrd_row_marks(const mrd_json_row *row, const mrd_strtab *strings, mrd_event *ev)
{
    ev->kind = MRD_SPAN;
    if (mrd_str_is(mrd_strtab_get(strings, mrd_row_sid(row, MRD_ROW_KIND)), "instant")) {
        ev->kind = MRD_INSTANT;
        ev->dur_ns = 0;
    }
    if (mrd_row_flag(row, MRD_ROW_UNFINISHED) && ev->kind == MRD_SPAN)
        ev->dur_ns = MRD_DUR_UNFINISHED;
    if (mrd_row_flag(row, MRD_ROW_NO_START) && ev->kind == MRD_SPAN)
        ev->flags |= MRD_EV_NO_START;
    if (mrd_row_flag(row, MRD_ROW_SIMULATED))
        ev->flags |= MRD_EV_SIMULATED;
    ev->bound_ns = mrd_row_has(row, MRD_ROW_BOUND) ? row->bound_ns : MRD_BOUND_LOCAL;
    ev->id = mrd_row_has(row, MRD_ROW_ID) ? row->id : 0;
    ev->category = mrd_row_sid(row, MRD_ROW_CATEGORY);
}

uint8_t
mrd_row_flows(mrd_import *imp, const mrd_json_row *row, mrd_flow *flows)
{
    size_t count = 0;

    for (size_t i = 0; i < row->n_flow_ids; i++) {
        /* the vendor's files have no directions, so each point continues an arrow of this id */
        mrd_flow_dir dir = i < row->n_flow_dirs ? (mrd_flow_dir) row->flow_dir[i] : MRD_FLOW_STEP;

        if (row->flow_taken[i])
            flows[count++] =
                (mrd_flow){ .id = mrd_flow_id((uint64_t) imp->input + 1, 0x726f77, row->flow_id[i]),
                            .dir = dir };
    }
    mrd_import_input(imp)->records += row->flows_refused;
    for (size_t i = 0; i < row->flows_refused; i++)
        mrd_import_drop(imp, row->offset,
                        "an arrow of an event: its id is no number, or the event has more than %d",
                        MRD_ROW_FLOWS);
    return (uint8_t) count;
}
