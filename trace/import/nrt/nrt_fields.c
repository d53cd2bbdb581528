/* trace/import/nrt/nrt_fields.c - finds the meaning of each key of a runtime event, and stores its
 * value in the record or as an argument. */
#include "trace/import/nrt/import_nrt_int.h"

#include "base/num.h"

static nrt_field
nrt_key_of(mrd_str key)
{
#define NRT_IS(text, value) (memcmp(key.p, text, sizeof(text) - 1) == 0 ? (value) : NRT_OTHER)
    switch (key.len) {
    case 2:
        return NRT_IS("id", NRT_ID);
    case 4:
        return NRT_IS("data", NRT_DATA);
    case 5:
        return NRT_IS("phase", NRT_PHASE);
    case 6:
        return NRT_IS("nc_idx", NRT_NC_IDX);
    case 9:
        return NRT_IS("thread_id", NRT_THREAD_ID);
    case 10:
        return NRT_IS("event_type", NRT_EVENT_TYPE) != NRT_OTHER
                   ? NRT_EVENT_TYPE
                   : NRT_IS("worker_gid", NRT_WORKER_GID);
    case 11:
        return key.p[0] == 't' ? NRT_IS("tracking_id", NRT_TRACKING_ID)
                               : NRT_IS("nc_local_id", NRT_NC_LOCAL_ID);
    case 12:
        return NRT_IS("timestamp_ns", NRT_TIMESTAMP);
    default:
        return NRT_OTHER;
    }
#undef NRT_IS
}

/* ---- Numbers of 64 bits, which may be quoted ---- */

bool
mrd_nrt_number(mrd_jr_type type, mrd_str text, uint64_t *ret_v)
{
    if (type == MRD_JR_NUMBER && mrd_num_digits(text, ret_v))
        return true;
    return (type == MRD_JR_NUMBER || type == MRD_JR_STRING) && mrd_num_u64(text, ret_v) == MRD_OK;
}

static inline bool
nrt_i64(mrd_jr_type type, mrd_str text, int64_t *ret_v)
{
    uint64_t v;

    if (mrd_nrt_number(type, text, &v) && v <= INT64_MAX) {
        *ret_v = (int64_t) v;
        return true;
    }
    return (type == MRD_JR_NUMBER || type == MRD_JR_STRING) && mrd_num_i64(text, ret_v) == MRD_OK;
}

/* Parses a number such as nc_idx or thread_id. null and negative numbers mean unknown. Returns
 * false for other values. */
static bool
nrt_attribute(mrd_jr_type type, mrd_str text, int64_t *ret_v)
{
    if (type == MRD_JR_NULL)
        return true;
    if (!nrt_i64(type, text, ret_v))
        return false;
    if (*ret_v < 0)
        *ret_v = MRD_NONE;
    return true;
}

nrt_phase
mrd_nrt_phase_of(mrd_str text)
{
    if (text.len == 5 && memcmp(text.p, "start", 5) == 0)
        return NRT_START;
    if (text.len == 4 && memcmp(text.p, "stop", 4) == 0)
        return NRT_STOP;
    return mrd_str_is(text, "instant") ? NRT_INSTANT : NRT_UNKNOWN;
}

nrt_field
mrd_nrt_field_of(mrd_nrt *nrt, mrd_str key, bool in_data, mrd_sid *ret_key)
{
    nrt_field field = in_data ? NRT_OTHER : nrt_key_of(key);

    *ret_key = MRD_SID_EMPTY;
    if (field != NRT_OTHER && field != NRT_DATA)
        return field;
    *ret_key = mrd_args_key(nrt->args, key);
    if (!in_data)
        return field;
    return *ret_key == nrt->key_nc_ts    ? NRT_DATA_NC_TS
           : *ret_key == nrt->key_exec   ? NRT_DATA_EXEC
           : *ret_key == nrt->key_pcore  ? NRT_DATA_PCORE
           : *ret_key == nrt->key_cpu_ts ? NRT_DATA_CPU_TS
                                         : NRT_OTHER;
}

/* Stores a value in the record if the record has a member for it. Returns false if type or range of
 * the value is wrong. */
static bool
nrt_take_known(mrd_nrt *nrt, nrt_record *rec, nrt_field field, mrd_jr_type type, mrd_str text)
{
    switch (field) {
    case NRT_EVENT_TYPE:
        rec->type = MRD_SID_EMPTY;
        if (type != MRD_JR_STRING || text.len == 0)
            return false;
        rec->type = mrd_args_key(nrt->args, text);
        return true;
    case NRT_PHASE:
        rec->phase = mrd_nrt_phase_of(text);
        return type == MRD_JR_STRING;
    case NRT_ID:
        return mrd_nrt_number(type, text, &rec->id);
    case NRT_NC_LOCAL_ID:
        return rec->has_local = mrd_nrt_number(type, text, &rec->local_id);
    case NRT_TRACKING_ID:
        return rec->has_tracking = mrd_nrt_number(type, text, &rec->tracking_id);
    case NRT_NC_IDX:
        return nrt_attribute(type, text, &rec->nc_idx);
    case NRT_THREAD_ID:
        return nrt_attribute(type, text, &rec->thread_id);
    case NRT_WORKER_GID:
        return nrt_attribute(type, text, &rec->worker_gid);
    default:
        return rec->has_ts = nrt_i64(type, text, &rec->ts.ns);
    }
}

/* Stores a value of "data" in the record if later functions need it there. The caller also stores
 * the value as an argument. */
static void
nrt_note_data(nrt_record *rec, nrt_field field, mrd_jr_type type, mrd_str text)
{
    if (field == NRT_DATA_NC_TS)
        rec->has_nc_ts = nrt_i64(type, text, &rec->nc_ts.ns);
    else if (field == NRT_DATA_EXEC)
        rec->has_exec = mrd_nrt_number(type, text, &rec->exec_id);
    else if (field == NRT_DATA_PCORE)
        (void) nrt_attribute(type, text, &rec->pcore_idx);
    else if (field == NRT_DATA_CPU_TS)
        rec->has_cpu_ts = nrt_i64(type, text, &rec->cpu_ts.ns);
}

mrd_err
mrd_nrt_take(mrd_nrt *nrt, nrt_record *rec, nrt_field field, mrd_sid key, mrd_jr_type type,
             mrd_str text)
{
    static const char *const names[] = { "",           "event_type",  "phase",       "id",
                                         "nc_idx",     "nc_local_id", "tracking_id", "thread_id",
                                         "worker_gid", "data",        "timestamp_ns" };

    if (field != NRT_OTHER && field < NRT_DATA_NC_TS && field != NRT_DATA) {
        if (!nrt_take_known(nrt, rec, field, type, text) && rec->bad == NULL)
            rec->bad = names[field];
        return MRD_OK;
    }
    nrt_note_data(rec, field, type, text);
    return mrd_args_value(nrt->args, key, nrt->r, type, text);
}
