/*
 * trace/import/torch/import_flight.c - reads dumps of PyTorch's flight recorder, which keeps the
 * last collectives and messages of each process group of a rank. A dump is a pickle, or JSON with
 * the same members.
 *
 * Each entry becomes a span from its creation to its completion, on a track of its process group. A
 * span is unfinished if the entry had not completed. Its category is "flight_recorder". Group,
 * operation, number and sizes become the arguments that Kineto's traces have. The other members of
 * an entry become arguments too.
 *
 * The file's name has the rank ("_dump_3", "nccl_trace_rank_3"), because no member states it. The
 * groups of the rank are added to the catalog (trace/model/comm_group.h). A dump may have groups
 * and no entries, because some dumps have only entries that have not completed.
 *
 * "pg_status" has the number of the last operation for each group, but it names groups by numbers
 * of this process, which only entries relate to names. Both numbers and names are counted in the
 * order in which groups are created. So if there are as many numbers as named groups, their order
 * relates them. This is used only if no entry contradicts it.
 *
 * Memory: the whole file, and its JSON if it is a pickle.
 * Source: torch/csrc/distributed/c10d/FlightRecorder.cpp, versions 2.4 to 2.10 of the dump.
 */
#include "trace/import/import.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/conf/json.h"
#include "base/map.h"
#include "base/num.h"
#include "base/obj.h"
#include "base/vec.h"
#include "trace/import/json_rows.h"
#include "trace/import/torch/pickle.h"
#include "trace/json/args.h"
#include "trace/model/arg_keys.h"
#include "trace/model/comm_group.h"

#define FL_FILE_MAX   (256u << 20)
#define FL_GROUPS_MAX 65536u
#define FL_MEMBER_MAX (1u << 20) /* bytes of pg_config or pg_status */

/* A process group of PyTorch that this rank created. */
typedef struct {
    mrd_comm_group pub;
    int64_t number; /* the group's name if it is a number, else MRD_NONE */
    /* number of the group in this process, as the dump's entries state it, or MRD_NONE */
    int64_t local;
    int64_t members; /* number of ranks in the group's list of ranks; MRD_NONE if unknown */
} fl_group;

/* The state of one process group, a member of "pg_status" in the dump. */
typedef struct {
    int64_t local, entered, completed;
} fl_status;

/* The members of a collective's entry that determine its span. Unknown numbers are MRD_NONE. */
typedef struct {
    mrd_sid name, group, what;
    int64_t created, completed, seq, local;
    double duration_ms;
    bool is_p2p, is_completed;
} fl_entry;

typedef struct {
    mrd_import *imp;
    mrd_input *input;
    mrd_catalog *cat;
    mrd_strtab *strings;
    mrd_json_reader *reader;
    mrd_args *args;
    mrd_proc_id process;
    mrd_sid category;
    fl_group *groups;
    size_t n_groups, cap_groups;
    mrd_map group_of; /* index in `groups` by name, until fl_relate sorts them */
    fl_status *status;
    size_t n_status, cap_status;
    mrd_err err;
} flight;

/* ---- Numbers and texts ---- */

/* Parses a number that JSON may also have as a text. */
static bool
fl_int(mrd_jr_type type, mrd_str text, int64_t *ret)
{
    return (type == MRD_JR_NUMBER || type == MRD_JR_STRING) && mrd_num_i64(text, ret) == MRD_OK;
}

static int64_t
fl_member_int(const mrd_json *object, const char *key)
{
    char scratch[64];
    mrd_str text;
    int64_t v = MRD_NONE;

    if (mrd_json_text(mrd_json_get(object, key), scratch, &text) != MRD_OK ||
        mrd_num_i64(text, &v) != MRD_OK)
        return MRD_NONE;
    return v;
}

/* Returns the number of an operation from "pg_status", counted from 1. The dump states -1 if there
 * was no operation yet. Returns MRD_NONE if the number is missing. */
static int64_t
fl_status_of(const mrd_json *json, const char *key)
{
    int64_t v = fl_member_int(json, key);

    return mrd_json_get(json, key) != NULL && v == -1 ? 0 : v;
}

/* Returns the total number of elements of the tensors with these shapes, such as "[[2, 3], [4]]"
 * (10). A tensor without dimensions has one element. Returns MRD_NONE if the number is unknown. */
static int64_t
fl_elements(mrd_str shapes)
{
    int64_t sum = 0, product = 1, dimension = MRD_NONE;
    unsigned depth = 0;

    for (size_t i = 0; i < shapes.len; i++) {
        char c = shapes.p[i];
        bool ends = c == ',' || c == ']';

        if (c >= '0' && c <= '9') {
            dimension = dimension == MRD_NONE ? 0 : dimension;
            if (dimension > INT64_MAX / 10 - 1)
                return MRD_NONE;
            dimension = 10 * dimension + (c - '0');
        }
        if (ends && dimension != MRD_NONE) {
            if (__builtin_mul_overflow(product, dimension, &product))
                return MRD_NONE;
            dimension = MRD_NONE;
        }
        depth += c == '[';
        if (c == ']' && depth-- == 2) {
            if (__builtin_add_overflow(sum, product, &sum))
                return MRD_NONE;
            product = 1;
        }
    }
    return sum;
}

/* Returns the first text of a list such as ["Float", "Int"]. */
static mrd_str
fl_first(mrd_str list)
{
    const char *from = memchr(list.p, '"', list.len), *to;

    if (from == NULL)
        return MRD_STR("");
    from++;
    to = memchr(from, '"', list.len - (size_t) (from - list.p));
    return to == NULL ? MRD_STR("") : (mrd_str){ from, (size_t) (to - from) };
}

/* Returns the rank in the file's name: the number after "rank", or the number at the end of the
 * name without its suffixes. */
static int64_t
fl_rank_of(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash == NULL ? path : slash + 1, *word = NULL;
    size_t len = strcspn(name, "."), from = len;
    int64_t rank;

    for (const char *at = name; (at = strstr(at, "rank")) != NULL; at++)
        word = at + strspn(at + 4, "_-") + 4;
    if (word != NULL && isdigit((unsigned char) word[0])) {
        from = (size_t) (word - name);
        len = from + strspn(word, "0123456789");
    } else {
        while (from > 0 && isdigit((unsigned char) name[from - 1]))
            from--;
    }
    return mrd_num_i64((mrd_str){ name + from, len - from }, &rank) == MRD_OK ? rank : MRD_NONE;
}

/* ---- Groups ---- */

static fl_group *
fl_find_group(flight *fl, mrd_sid name)
{
    uint32_t at = mrd_map_get(&fl->group_of, (mrd_map_key){ name, 0, 0 });

    return at == MRD_MAP_NONE ? NULL : &fl->groups[at];
}

static int64_t
fl_count_ranks(mrd_str ranks)
{
    int64_t n = 0;

    for (size_t i = 0; i < ranks.len; i++) {
        if (isdigit((unsigned char) ranks.p[i]))
            n += i == 0 || !isdigit((unsigned char) ranks.p[i - 1]);
        else if (strchr("[], ", ranks.p[i]) == NULL)
            return MRD_NONE; /* the list is cut */
    }
    return n == 0 ? MRD_NONE : n;
}

static void
fl_take_config(flight *fl, const char *name, const mrd_json *json)
{
    fl_group group = { .pub = { .entered = MRD_NONE, .completed = MRD_NONE },
                       .number = MRD_NONE,
                       .local = MRD_NONE };
    const char *ranks = mrd_json_str(json, "ranks", "");

    if (!mrd_json_is_object(json))
        return;
    if (!MRD_VEC_ROOM_MAX(fl->groups, fl->n_groups, fl->cap_groups, 1, FL_GROUPS_MAX)) {
        fl->err = fl->n_groups == FL_GROUPS_MAX ? MRD_OK : MRD_NOMEM;
        return;
    }
    group.pub.process = fl->process;
    group.pub.name = mrd_strtab_addz(fl->strings, name);
    group.pub.what = mrd_strtab_addz(fl->strings, mrd_json_str(json, "desc", ""));
    group.pub.ranks = mrd_strtab_addz(fl->strings, ranks);
    group.members = fl_count_ranks(mrd_str_of(ranks));
    if (mrd_num_i64(mrd_str_of(name), &group.number) != MRD_OK)
        group.number = MRD_NONE;
    if (strcmp(mrd_json_str(json, "desc", ""), "default_pg") == 0)
        mrd_catalog_borrow_process(fl->cat, fl->process)->world_size = group.members;
    if (mrd_map_put(&fl->group_of, (mrd_map_key){ group.pub.name, 0, 0 },
                    (uint32_t) fl->n_groups) != MRD_OK)
        fl->err = MRD_NOMEM;
    fl->groups[fl->n_groups++] = group;
}

static void
fl_take_status(flight *fl, const char *local, const mrd_json *json)
{
    fl_status status = { 0 };

    if (!mrd_json_is_object(json) || mrd_num_i64(mrd_str_of(local), &status.local) != MRD_OK)
        return;
    if (!MRD_VEC_ROOM_MAX(fl->status, fl->n_status, fl->cap_status, 1, FL_GROUPS_MAX)) {
        fl->err = fl->n_status == FL_GROUPS_MAX ? MRD_OK : MRD_NOMEM;
        return;
    }
    status.entered = fl_status_of(json, "last_enqueued_collective");
    status.completed = fl_status_of(json, "last_completed_collective");
    fl->status[fl->n_status++] = status;
}

/* Reads the JSON object that the reader has just returned, and passes its members to `take`. */
static mrd_err
fl_members(flight *fl, void (*take)(flight *fl, const char *key, const mrd_json *json))
{
    mrd_json *doc = NULL;
    mrd_str text;
    mrd_err err = mrd_json_raw(fl->reader, FL_MEMBER_MAX, &text);

    if (err == MRD_OK)
        err = mrd_json_parse(text, "process groups", &doc, NULL);
    if (err == MRD_OK && mrd_json_is_object(doc))
        for (void *it = mrd_json_iter(doc); it != NULL; it = mrd_json_iter_next(doc, it))
            take(fl, mrd_json_iter_key(it), mrd_json_iter_value(it));
    mrd_json_free(doc);
    if (err == MRD_NOMEM)
        return err;
    return fl->err != MRD_OK ? fl->err : mrd_json_reader_err(fl->reader, NULL);
}

static int
fl_group_order(const void *a, const void *b)
{
    const fl_group *x = a, *y = b;

    return (x->number > y->number) - (x->number < y->number);
}

static int
fl_status_order(const void *a, const void *b)
{
    const fl_status *x = a, *y = b;

    return (x->local > y->local) - (x->local < y->local);
}

/* Relates the members of "pg_status" to the groups by their order, unless an entry contradicts. */
static void
fl_relate(flight *fl)
{
    bool same = fl->n_groups == fl->n_status && fl->n_groups > 0;

    if (fl->n_groups > 0)
        qsort(fl->groups, fl->n_groups, sizeof(*fl->groups), fl_group_order);
    if (fl->n_status > 0)
        qsort(fl->status, fl->n_status, sizeof(*fl->status), fl_status_order);
    for (size_t i = 0; i < fl->n_groups && same; i++)
        same = fl->groups[i].number != MRD_NONE &&
               (fl->groups[i].local == MRD_NONE || fl->groups[i].local == fl->status[i].local);
    for (size_t i = 0; i < fl->n_groups; i++) {
        if (same) {
            fl->groups[i].pub.entered = fl->status[i].entered;
            fl->groups[i].pub.completed = fl->status[i].completed;
        }
        mrd_catalog_add_group(fl->cat, &fl->groups[i].pub);
    }
}

/* ---- Entries ---- */

/* Returns the group with this name. The dumps of Gloo describe their only group without its name,
 * which then becomes the name in the entries. */
static fl_group *
fl_group_of_entry(flight *fl, const fl_entry *entry)
{
    fl_group *group = fl_find_group(fl, entry->group), *only = fl->groups;

    if (group != NULL || fl->n_groups != 1 || only->pub.name != MRD_SID_EMPTY ||
        entry->group == MRD_SID_EMPTY)
        return group;
    only->pub.name = entry->group;
    if (only->pub.what == MRD_SID_EMPTY)
        only->pub.what = entry->what;
    if (mrd_num_i64(mrd_strtab_get(fl->strings, entry->group), &only->number) != MRD_OK)
        only->number = MRD_NONE;
    if (mrd_str_is(mrd_strtab_get(fl->strings, only->pub.what), "default_pg"))
        mrd_catalog_borrow_process(fl->cat, fl->process)->world_size = only->members;
    if (mrd_map_put(&fl->group_of, (mrd_map_key){ entry->group, 0, 0 }, 0) != MRD_OK)
        fl->err = MRD_NOMEM;
    return only;
}

/* Returns true if the group's status says that this collective is complete. Gloo's entries never
 * state it themselves. */
static bool
fl_is_past(const flight *fl, const fl_entry *entry)
{
    for (size_t i = 0; i < fl->n_status && !entry->is_p2p && entry->local != MRD_NONE; i++) {
        if (fl->status[i].local == entry->local)
            return entry->seq != MRD_NONE && fl->status[i].completed != MRD_NONE &&
                   entry->seq <= fl->status[i].completed;
    }
    return false;
}

/* Reads the name and the purpose of a group: ["35", "TENSOR_MODEL_PARALLEL_GROUP"]. */
static mrd_err
fl_take_names(flight *fl, fl_entry *entry)
{
    mrd_jr_type type;
    mrd_str text;

    mrd_json_enter(fl->reader);
    while ((type = mrd_json_next(fl->reader, NULL, &text)) != MRD_JR_END) {
        if (type == MRD_JR_ERROR)
            return mrd_json_reader_err(fl->reader, NULL);
        if (type != MRD_JR_STRING && type != MRD_JR_NUMBER)
            continue;
        if (entry->group == MRD_SID_EMPTY)
            entry->group = mrd_args_key(fl->args, text);
        else if (entry->what == MRD_SID_EMPTY)
            entry->what = mrd_args_key(fl->args, text);
    }
    return MRD_OK;
}

/* Reads a list of an entry (shapes or types), adds it as an argument, and adds an argument that
 * summarises it. */
static mrd_err
fl_take_list(flight *fl, mrd_sid key, mrd_str name)
{
    mrd_str text;
    mrd_err err = mrd_json_raw(fl->reader, MRD_ARGS_JSON, &text);
    int64_t elements;

    if (err == MRD_LIMIT && mrd_json_reader_err(fl->reader, NULL) == MRD_OK)
        return MRD_OK;
    if (err != MRD_OK)
        return err;
    if (mrd_str_ends(name, "_sizes") && (elements = fl_elements(text)) != MRD_NONE)
        mrd_args_int(fl->args,
                     mrd_arg_key_add(fl->strings, mrd_str_starts(name, "in")
                                                      ? MRD_KEY_IN_ELEMENTS
                                                      : MRD_KEY_OUT_ELEMENTS),
                     elements);
    if (mrd_str_is(name, "input_dtypes"))
        mrd_args_sid(fl->args, mrd_arg_key_add(fl->strings, MRD_KEY_ELEMENT_TYPE),
                     mrd_args_key(fl->args, fl_first(text)));
    mrd_args_json(fl->args, key, text);
    return MRD_OK;
}

/* Reads one member of a collective's entry. */
static mrd_err
fl_take(flight *fl, fl_entry *entry, mrd_str key, mrd_jr_type type, mrd_str text)
{
    char name[32];
    mrd_sid sid;

    if (mrd_str_is(key, "process_group") && type == MRD_JR_ARRAY)
        return fl_take_names(fl, entry);
    if (mrd_str_is(key, "profiling_name") && type == MRD_JR_STRING) {
        entry->name = mrd_args_key(fl->args, text);
        return MRD_OK;
    }
    if (mrd_str_is(key, "time_created_ns") && fl_int(type, text, &entry->created))
        return MRD_OK;
    if (type == MRD_JR_NULL)
        return MRD_OK;
    if (mrd_str_is(key, "collective_seq_id"))
        fl_int(type, text, &entry->seq);
    else if (mrd_str_is(key, "pg_id"))
        fl_int(type, text, &entry->local);
    else if (mrd_str_is(key, "time_discovered_completed_ns"))
        fl_int(type, text, &entry->completed);
    else if (mrd_str_is(key, "duration_ms") && type == MRD_JR_NUMBER)
        (void) mrd_num_double(text, &entry->duration_ms);
    else if (mrd_str_is(key, "is_p2p"))
        entry->is_p2p = type == MRD_JR_TRUE;
    else if (mrd_str_is(key, "state"))
        entry->is_completed = mrd_str_is(text, "completed");
    sid = mrd_args_key(fl->args, key);
    if (type != MRD_JR_ARRAY)
        return mrd_args_value(fl->args, sid, fl->reader, type, text);
    snprintf(name, sizeof(name), MRD_STR_FMT, MRD_STR_ARG(key)); /* the list invalidates `key` */
    return fl_take_list(fl, sid, mrd_str_of(name));
}

/* Adds the arguments that Kineto's traces have for a collective. */
static void
fl_add_args(flight *fl, const fl_entry *entry)
{
    const fl_group *group = fl_find_group(fl, entry->group);
    mrd_str name = mrd_strtab_get(fl->strings, entry->name);
    const char *colon = memchr(name.p, ':', name.len);

    if (colon != NULL)
        name = (mrd_str){ colon + 1, name.len - (size_t) (colon + 1 - name.p) };
    mrd_args_sid(fl->args, mrd_arg_key_add(fl->strings, MRD_KEY_COLLECTIVE),
                 mrd_args_key(fl->args, name));
    mrd_args_sid(fl->args, mrd_arg_key_add(fl->strings, MRD_KEY_GROUP_NAME), entry->group);
    mrd_args_sid(fl->args, mrd_strtab_addz(fl->strings, "Process Group Description"), entry->what);
    if (group != NULL && group->pub.ranks != MRD_SID_EMPTY)
        mrd_args_sid(fl->args, mrd_arg_key_add(fl->strings, MRD_KEY_GROUP_RANKS), group->pub.ranks);
    if (group != NULL && group->members != MRD_NONE)
        mrd_args_int(fl->args, mrd_arg_key_add(fl->strings, MRD_KEY_GROUP_SIZE), group->members);
    if (!entry->is_p2p && entry->seq != MRD_NONE)
        mrd_args_int(fl->args, mrd_arg_key_add(fl->strings, MRD_KEY_COLLECTIVE_SEQ), entry->seq);
}

/* Returns the length in ns of the span that an entry becomes. */
static mrd_dur_ns
fl_length(const fl_entry *entry)
{
    int64_t length;

    if (!entry->is_completed && entry->completed <= 0)
        return MRD_DUR_UNFINISHED;
    if (entry->completed > entry->created &&
        !__builtin_sub_overflow(entry->completed, entry->created, &length))
        return length;
    return entry->duration_ms > 0 && entry->duration_ms < 1e12
               ? (mrd_dur_ns) (entry->duration_ms * 1e6)
               : 0;
}

static mrd_err
fl_put(flight *fl, const fl_entry *entry, uint64_t offset)
{
    mrd_event ev = { .kind = MRD_SPAN, .name = entry->name, .category = fl->category };
    fl_group *group = fl_group_of_entry(fl, entry);
    mrd_buf name = { 0 };
    mrd_track track;
    size_t n_args;
    mrd_err err;

    fl->input->records++;
    if (entry->name == MRD_SID_EMPTY || entry->created <= 0) {
        mrd_import_drop(fl->imp, offset, "an entry without profiling_name or time_created_ns");
        return MRD_OK;
    }
    if (group != NULL && group->local == MRD_NONE)
        group->local = entry->local;
    mrd_track_init(&track, fl->process, MRD_SRC_FRAMEWORK);
    mrd_buf_fmt(&name, "group " MRD_STR_FMT " " MRD_STR_FMT,
                MRD_STR_ARG(mrd_strtab_get(fl->strings, entry->group)),
                MRD_STR_ARG(mrd_strtab_get(fl->strings, entry->what)));
    track.name = mrd_args_key(fl->args, (mrd_str){ (const char *) name.p, name.len });
    err = name.err;
    mrd_buf_fini(&name);
    if (err != MRD_OK)
        return err;
    ev.track = mrd_catalog_track(fl->cat, &track);
    ev.ts.ns = entry->created;
    ev.dur_ns = fl_length(entry);
    if (ev.dur_ns < 0 && fl_is_past(fl, entry))
        ev.dur_ns = 0;
    fl_add_args(fl, entry);
    ev.args = mrd_args_view(fl->args, &n_args);
    ev.arg_count = (uint32_t) n_args;
    if (mrd_args_err(fl->args) != MRD_OK)
        return MRD_NOMEM;
    fl->input->unfinished += ev.dur_ns < 0;
    return mrd_import_put(fl->imp, 0, &ev);
}

static mrd_err
fl_entry_read(void *self)
{
    flight *fl = self;
    uint64_t offset = mrd_json_reader_offset(fl->reader);
    fl_entry entry = {
        .created = MRD_NONE, .completed = MRD_NONE, .seq = MRD_NONE, .local = MRD_NONE
    };
    mrd_jr_type type;
    mrd_str key, text;
    mrd_err err = MRD_OK;

    mrd_args_reset(fl->args);
    mrd_json_enter(fl->reader);
    while (err == MRD_OK && (type = mrd_json_next(fl->reader, &key, &text)) != MRD_JR_END)
        err = type == MRD_JR_ERROR ? mrd_json_reader_err(fl->reader, NULL)
                                   : fl_take(fl, &entry, key, type, text);
    return err != MRD_OK ? err : fl_put(fl, &entry, offset);
}

/* ---- The dump ---- */

/* Stores a scalar of the dump, such as the version of NCCL, as a fact about the input. */
static void
fl_fact(flight *fl, mrd_str key, mrd_str text)
{
    char name[80], value[80];

    snprintf(name, sizeof(name), "input.%u.%.*s", fl->imp->input,
             (int) (key.len < 40 ? key.len : 40), key.p);
    snprintf(value, sizeof(value), "%.*s", (int) (text.len < 60 ? text.len : 60), text.p);
    mrd_catalog_set(fl->cat, name, value);
}

/* Reads the dump in one of two passes. The first pass reads everything but the entries, the second
 * only the entries. The entries need the process groups, which follow them in JSON. */
static mrd_err
fl_pass(flight *fl, bool entries)
{
    mrd_str key, text;
    mrd_jr_type type = mrd_json_next(fl->reader, NULL, NULL);
    mrd_err err = MRD_OK;

    if (type != MRD_JR_OBJECT)
        return mrd_json_reader_err(fl->reader, NULL);
    mrd_json_enter(fl->reader);
    while (err == MRD_OK && (type = mrd_json_next(fl->reader, &key, &text)) != MRD_JR_END) {
        if (type == MRD_JR_ERROR)
            return mrd_json_reader_err(fl->reader, NULL);
        if (entries && mrd_str_is(key, "entries") && type == MRD_JR_ARRAY)
            err = mrd_rows_read(fl->imp, fl->reader, MRD_STR("entries"), fl_entry_read, fl);
        else if (entries)
            continue;
        else if (mrd_str_is(key, "pg_config") && type == MRD_JR_OBJECT)
            err = fl_members(fl, fl_take_config);
        else if (mrd_str_is(key, "pg_status") && type == MRD_JR_OBJECT)
            err = fl_members(fl, fl_take_status);
        else if (type == MRD_JR_STRING || type == MRD_JR_NUMBER)
            fl_fact(fl, key, text);
    }
    return err;
}

/* Reads the file completely into memory. */
static mrd_err
fl_load(mrd_import *imp, mrd_buf *to, mrd_why *why)
{
    size_t most = imp->part_max != 0 && imp->part_max < FL_FILE_MAX ? imp->part_max : FL_FILE_MAX;
    mrd_bytes data;
    mrd_err err;

    while ((err = mrd_in_fill(imp->in, 1, &data, why)) == MRD_OK && data.len > 0) {
        if (data.len > most - to->len)
            return mrd_why_set(why, MRD_LIMIT, 0, "'%s': a dump of more than %zu MiB",
                               mrd_in_name(imp->in), most >> 20);
        mrd_buf_add(to, data.p, data.len);
        mrd_in_consume(imp->in, data.len);
    }
    if (to->err != MRD_OK)
        return mrd_why_set(why, to->err, 0, "'%s'", mrd_in_name(imp->in));
    return err;
}

static void
fl_add_process(flight *fl)
{
    const char *path = mrd_in_name(fl->imp->in);
    mrd_process process;

    mrd_process_init(&process);
    process.instance_id = fl->imp->identity.instance_id != MRD_SID_EMPTY
                              ? fl->imp->identity.instance_id
                              : mrd_catalog_intern(fl->cat, "unknown");
    process.rank = fl->imp->identity.rank != MRD_NONE ? fl->imp->identity.rank : fl_rank_of(path);
    process.process_id = fl->imp->identity.process_id;
    if (process.process_id == MRD_NONE) {
        process.process_id = process.rank == MRD_NONE ? 0 : process.rank;
        process.flags = MRD_PROC_NO_PID;
    }
    process.scope = fl->imp->input + 1;
    process.sort_index = process.rank;
    if (process.rank == MRD_NONE)
        mrd_catalog_note(fl->cat,
                         "'%s': the rank is unknown, because the file's name does not end with it",
                         path);
    fl->process = mrd_catalog_process(fl->cat, &process);
}

/* Reads the JSON text of a dump in two passes. */
static mrd_err
fl_read(flight *fl, mrd_bytes json, mrd_why *why)
{
    const char *name = mrd_in_name(fl->imp->in);
    mrd_err err = MRD_OK;

    for (unsigned pass = 0; pass < 2 && err == MRD_OK; pass++) {
        mrd_in *in = NULL;

        if ((err = mrd_in_memory(json, name, &in, why)) == MRD_OK &&
            (err = mrd_json_reader_open(in, &fl->reader, why)) == MRD_OK) {
            err = fl_pass(fl, pass == 1);
            if (err != MRD_OK && mrd_json_reader_err(fl->reader, why) == MRD_OK)
                mrd_why_set(why, err, 0, "'%s': events could not be kept", name);
            if (pass == 1)
                mrd_import_note_text(fl->imp, fl->reader);
        }
        mrd_json_reader_close(fl->reader);
        fl->reader = NULL;
        mrd_in_close(in);
        /* the second pass reports damage with its offset, after the entries before it */
        if (pass == 0 && err != MRD_NOMEM)
            err = MRD_OK;
    }
    return err;
}

static mrd_err
fl_run(mrd_import *imp, mrd_why *why)
{
    flight fl = { .imp = imp,
                  .input = mrd_import_input(imp),
                  .cat = imp->catalog,
                  .strings = mrd_catalog_strings(imp->catalog) };
    mrd_buf file = { 0 }, json = { 0 };
    mrd_err err = fl_load(imp, &file, why);
    mrd_bytes data = { file.p, file.len };

    if (mrd_pickle_starts(data) && err == MRD_OK) {
        err = mrd_pickle_json(data, mrd_in_name(imp->in), &json, why);
        data = (mrd_bytes){ json.p, json.len };
    } else if (!mrd_pickle_starts(data) && err != MRD_NOMEM && data.len > 0) {
        err = MRD_OK; /* damaged JSON: keep the entries before the damage */
    }
    if (err == MRD_OK && (fl.args = mrd_args_new(fl.strings)) == NULL)
        err = mrd_why_set(why, MRD_NOMEM, 0, "'%s'", mrd_in_name(imp->in));
    if (err == MRD_OK) {
        fl.category = mrd_catalog_intern(imp->catalog, "flight_recorder");
        fl_add_process(&fl);
        err = fl_read(&fl, data, why);
        if (err != MRD_OK)
            mrd_catalog_borrow_process(fl.cat, fl.process)->flags |= MRD_PROC_CUT;
        fl_relate(&fl);
        imp->describes = fl.n_groups > 0;
    }
    mrd_args_free(fl.args);
    free(fl.groups);
    mrd_map_fini(&fl.group_of);
    free(fl.status);
    mrd_buf_fini(&file);
    mrd_buf_fini(&json);
    return err;
}

static int
fl_probe(mrd_str head, const char *name)
{
    bool is_pickle = mrd_pickle_starts((mrd_bytes){ (const uint8_t *) head.p, head.len });

    (void) name;
    if (!is_pickle && mrd_str_first(head) != '{')
        return 0;
    if (mrd_str_has(head, "collective_seq_id") && mrd_str_has(head, "profiling_name"))
        return 92;
    return mrd_str_has(head, "pg_config") && mrd_str_has(head, "pg_status") ? 92 : 0;
}

const mrd_import_ops mrd_import_flight = {
    .name = "torch-flight-recorder",
    .what = "dumps of PyTorch's flight recorder, one for each rank (pickle or JSON)",
    .probe = fl_probe,
    .run = fl_run,
};
