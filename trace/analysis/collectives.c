#include "trace/analysis/collectives.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/map.h"
#include "base/obj.h"
#include "base/vec.h"
#include "trace/model/arg_keys.h"

enum { TEXT_SHOWN = 48 }; /* maximum bytes of a name in a message */

/* Result of classifying an event name: whether such events can be collectives. Each name is
 * classified once. */
typedef enum {
    NAME_UNSEEN,
    NAME_OTHER,
    NAME_RUNNING,
    NAME_BARRIER,
    NAME_SAYS_ALL,
    NAME_SAYS_SINGLE,
    NAME_HOST /* communication by a library on the host, such as "gloo:all_reduce" */
} name_class;

struct mrd_collectives {
    const mrd_catalog *cat;
    const mrd_strtab *strings;
    mrd_device_work *work;
    uint8_t *classes; /* name_class of each event name, indexed by the name's id */
    size_t n;
    mrd_sid dumped; /* the category DUMPED, or MRD_SID_FULL if the catalog lacks it */
    bool on_host;   /* the result of mrd_collectives_on_host */
    mrd_sid keys[MRD_ARG_KEYS];
    mrd_map text_of; /* maps the hash of a group or an operation to an index in `texts` */
    char **texts;
    size_t n_texts, cap_texts;
};

/* Properties of each class of communication (trace/analysis/kernel_names.h). */
static const struct {
    mrd_cc_kind kind;
    bool uneven; /* the members of the group may contribute different amounts of data */
    mrd_cc_traffic traffic;
} operations[] = {
    [MRD_CLASS_ALLREDUCE] = { MRD_CC_SYNC, false, MRD_CC_TRAFFIC_TWICE },
    [MRD_CLASS_ALLGATHER] = { MRD_CC_SYNC, false, MRD_CC_TRAFFIC_PARTS },
    [MRD_CLASS_REDUCESCATTER] = { MRD_CC_SYNC, false, MRD_CC_TRAFFIC_PARTS },
    [MRD_CLASS_ALLTOALL] = { MRD_CC_SYNC, true, MRD_CC_TRAFFIC_PARTS },
    [MRD_CLASS_BARRIER] = { MRD_CC_SYNC, false, MRD_CC_TRAFFIC_UNKNOWN },
    [MRD_CLASS_SENDRECV] = { MRD_CC_SENDRECV, true, MRD_CC_TRAFFIC_UNKNOWN },
    [MRD_CLASS_MESSAGE] = { MRD_CC_LOOSE, false, MRD_CC_TRAFFIC_ONE },
};

/* Element types as PyTorch names them. */
static const struct {
    const char *name;
    uint64_t bytes;
} types[] = {
    { "Byte", 1 },
    { "Char", 1 },
    { "Bool", 1 },
    { "Float8_e4m3fn", 1 },
    { "Float8_e5m2", 1 },
    { "Half", 2 },
    { "Short", 2 },
    { "BFloat16", 2 },
    { "Float", 4 },
    { "Int", 4 },
    { "Double", 8 },
    { "Long", 8 },
    { "ComplexFloat", 8 },
    { "ComplexDouble", 16 },
    /* as Kineto names the types of an operator's inputs */
    { "float", 4 },
    { "double", 8 },
    { "c10::BFloat16", 2 },
    { "c10::Half", 2 },
    { "long int", 8 },
    { "int", 4 },
    { "unsigned char", 1 },
    { "signed char", 1 },
    { "bool", 1 },
};

/* Returns the size in bytes of a collective's input or output, whichever is larger. `in` and `out`
 * are numbers of elements of type `dtype`. Returns 0 if the size is unknown. */
static uint64_t
bytes_of(mrd_str dtype, int64_t in, int64_t out)
{
    int64_t most = in > out ? in : out;
    uint64_t bytes;

    for (size_t i = 0; i < MRD_COUNT(types) && most > 0; i++) {
        if (mrd_str_is(dtype, types[i].name))
            return __builtin_mul_overflow((uint64_t) most, types[i].bytes, &bytes) ? 0 : bytes;
    }
    return 0;
}

static name_class
classify(mrd_str name)
{
    static const struct {
        const char *prefix;
        name_class is;
    } rows[] = { { "nccl:all_to_all", NAME_SAYS_ALL },
                 { "nccl:alltoall", NAME_SAYS_ALL },
                 { "nccl:send", NAME_SAYS_SINGLE },
                 { "nccl:recv", NAME_SAYS_SINGLE },
                 { "nccl:coalesced", NAME_SAYS_SINGLE },
                 { "gloo:", NAME_HOST },
                 { "mpi:", NAME_HOST },
                 { "ucc:", NAME_HOST } };

    if (mrd_str_is(name, "cc_running"))
        return NAME_RUNNING;
    if (mrd_str_is(name, "cc_exec_barrier"))
        return NAME_BARRIER;
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        if (mrd_str_starts(name, rows[i].prefix))
            return rows[i].is;
    }
    return NAME_OTHER;
}

/* Category of operations in dumps of PyTorch's flight recorder. Their spans begin when an operation
 * is created, and need not show when it ran. */
#define DUMPED "flight_recorder"

/* Returns true if the catalog has the name of a collective on the host, and no cores or devices.
 * With devices, such a collective is a side channel, and the devices' collectives decide. */
static bool
are_on_host(const mrd_catalog *cat)
{
    const mrd_strtab *strings = mrd_catalog_strings(cat);
    size_t n = mrd_strtab_count(strings);
    bool any = false;

    if (mrd_strtab_find(strings, MRD_STR(DUMPED)) != MRD_SID_EMPTY &&
        mrd_strtab_find(strings, MRD_STR("user_annotation")) == MRD_SID_EMPTY)
        return false;
    for (mrd_sid sid = 1; sid < n && !any; sid++)
        any = classify(mrd_catalog_text(cat, sid)) == NAME_HOST;
    for (mrd_track_id id = 0; id < mrd_catalog_tracks(cat) && any; id++) {
        const mrd_track *track = mrd_catalog_borrow_track(cat, id);

        any = track->kind != MRD_TRACK_SPANS ||
              (track->lnc_idx == MRD_NONE && track->device_idx == MRD_NONE);
    }
    return any;
}

mrd_collectives *
mrd_collectives_new(const mrd_catalog *cat, const mrd_kernel_rules *rules)
{
    mrd_collectives *collectives = calloc(1, sizeof(*collectives));

    if (collectives == NULL)
        return NULL;
    collectives->cat = cat;
    collectives->strings = mrd_catalog_strings(cat);
    collectives->n = mrd_strtab_count(collectives->strings);
    collectives->classes = calloc(collectives->n + 1, sizeof(*collectives->classes));
    collectives->work = mrd_device_work_new(cat, rules);
    if (collectives->classes == NULL || collectives->work == NULL) {
        mrd_collectives_free(collectives);
        return NULL;
    }
    for (size_t i = 0; i < MRD_ARG_KEYS; i++)
        collectives->keys[i] = mrd_arg_key_find(collectives->strings, (mrd_arg_key) i);
    collectives->on_host = are_on_host(cat);
    collectives->dumped = mrd_strtab_find(collectives->strings, MRD_STR(DUMPED));
    if (collectives->dumped == MRD_SID_EMPTY)
        collectives->dumped = MRD_SID_FULL;
    return collectives;
}

void
mrd_collectives_free(mrd_collectives *collectives)
{
    if (collectives == NULL)
        return;
    for (size_t i = 0; i < collectives->n_texts; i++)
        free(collectives->texts[i]);
    free(collectives->texts);
    mrd_map_fini(&collectives->text_of);
    mrd_device_work_free(collectives->work);
    free(collectives->classes);
    free(collectives);
}

static mrd_str
arg_text(const mrd_collectives *collectives, const mrd_event *ev, unsigned key)
{
    return mrd_arg_text(collectives->strings, mrd_event_arg(ev, collectives->keys[key]));
}

static bool
arg_int(const mrd_collectives *collectives, const mrd_event *ev, unsigned key, int64_t *ret_v)
{
    const mrd_arg *arg = mrd_event_arg(ev, collectives->keys[key]);

    if (!mrd_arg_is_int(arg) || arg->v.i < 0)
        return false;
    *ret_v = arg->v.i;
    return true;
}

static uint64_t
hash_text(mrd_str text, uint64_t seed)
{
    return mrd_hash64(text.p, text.len, seed);
}

/* Returns a kernel's name without parameters and without NCCL's prefix, such as
 * "_AllReduce_Sum_f32_RING_LL". */
static mrd_str
kernel_part(mrd_str name)
{
    size_t from = mrd_str_starts(name, "ncclDevKernel") ? 13
                  : mrd_str_starts(name, "ncclKernel")  ? 10
                                                        : 0,
           end = from;

    while (end < name.len && name.p[end] != '(')
        end++;
    return (mrd_str){ name.p + from, end - from };
}

/* Removes the next number from the front of a list such as "[0, 12, ...]". Returns false if the
 * list has no more numbers. */
static bool
next_number(mrd_str *text, uint64_t *ret)
{
    while (text->len > 0 && !isdigit((unsigned char) *text->p))
        *text = (mrd_str){ text->p + 1, text->len - 1 };
    if (text->len == 0)
        return false;
    for (*ret = 0; text->len > 0 && isdigit((unsigned char) *text->p) && *ret < UINT32_MAX;
         *text = (mrd_str){ text->p + 1, text->len - 1 })
        *ret = *ret * 10 + (uint64_t) (*text->p - '0');
    return true;
}

static bool
has_zero(mrd_str text)
{
    uint64_t v;

    while (next_number(&text, &v)) {
        if (v == 0)
            return true;
    }
    return false;
}

/* Returns true if a list of ranks is incomplete. Profilers end long lists with "...". */
static bool
is_cut(mrd_str ranks)
{
    return memmem(ranks.p, ranks.len, "...", 3) != NULL;
}

/* Stores the number of a collective, which is the same at all participants, from an argument of
 * this key. Changes nothing if the event has no such argument, or if PyTorch's counter is negative,
 * which means unknown. Other numbers are hashes or start anywhere, so they may have any sign. */
static void
put_seq(const mrd_collectives *collectives, const mrd_event *ev, mrd_arg_key key, mrd_cc *ret)
{
    const mrd_arg *arg = mrd_event_arg(ev, collectives->keys[key]);
    mrd_str text = mrd_arg_text(collectives->strings, arg);

    if (text.len > 0)
        ret->seq = (int64_t) (hash_text(text, 0) & INT64_MAX);
    else if (mrd_arg_is_int(arg) && (key != MRD_KEY_COLLECTIVE_SEQ || arg->v.i >= 0))
        ret->seq = (int64_t) (arg->v.u & INT64_MAX);
    else
        return;
    ret->lasting = mrd_arg_key_class(key) == MRD_ARG_CLASS_LASTING;
}

/* Checks the list of ranks in a kernel's arguments. Returns false if the list contradicts the
 * kernel: it is complete, but its length differs from the group's size, or it lacks the kernel's
 * own rank. */
static bool
is_possible(const mrd_collectives *collectives, const mrd_event *ev, int64_t members)
{
    const mrd_track *track = mrd_catalog_borrow_track(collectives->cat, ev->track);
    int64_t rank = mrd_catalog_borrow_process(collectives->cat, track->process)->rank, n = 0;
    mrd_str ranks = arg_text(collectives, ev, MRD_KEY_GROUP_RANKS);
    bool mine = rank == MRD_NONE, cut = is_cut(ranks);
    uint64_t v;

    while (next_number(&ranks, &v)) {
        mine = mine || (int64_t) v == rank;
        n++;
    }
    return n == 0 || cut || (mine && (members == 0 || members == n));
}

/* Returns true if this is the name of the start or the end of an asynchronous operation, such as
 * "all-reduce-start.2" or "all-gather-done". */
static bool
is_half(mrd_str name)
{
    while (name.len > 0 &&
           (isdigit((unsigned char) name.p[name.len - 1]) || name.p[name.len - 1] == '.'))
        name.len--;
    return mrd_str_ends(name, "-start") || mrd_str_ends(name, "-done");
}

/* Fills in *ret for a collective of an XLA program. All members run the same program, so program
 * name, operation name and run number identify the collective. Returns false in two cases:
 * - Half of an asynchronous operation. It does not wait for all members.
 * - Several groups in one operation. Which of them the kernel belongs to is unknown. */
static bool
see_hlo(const mrd_collectives *collectives, const mrd_event *ev, mrd_cc *ret)
{
    mrd_str op = arg_text(collectives, ev, MRD_KEY_HLO_OP),
            groups = arg_text(collectives, ev, MRD_KEY_HLO_GROUPS),
            name = mrd_catalog_text(collectives->cat, ev->name);
    mrd_cc run = { .seq = -1 };
    uint64_t value;

    if (is_half(name) ||
        (mrd_str_eq(name, op) && is_half(arg_text(collectives, ev, MRD_KEY_HLO_CATEGORY))))
        return false;
    if (op.len == 0)
        return true;
    ret->op = hash_text(arg_text(collectives, ev, MRD_KEY_HLO_MODULE), hash_text(op, 0));
    put_seq(collectives, ev, MRD_KEY_HLO_RUN, &run);
    if (run.seq >= 0) {
        ret->seq = (int64_t) (mrd_hash64(&run.seq, sizeof(run.seq), ret->op) & INT64_MAX);
        ret->lasting = run.lasting;
    }
    if (groups.len == 0)
        return true;
    if (memmem(groups.p, groups.len, "], [", 4) != NULL)
        return false;
    ret->group = hash_text(groups, hash_text(MRD_STR("hlo"), 0));
    ret->world = false;
    ret->listed = true;
    for (ret->members = 0; next_number(&groups, &value);)
        ret->members++;
    return true;
}

/* Classifies a communication span of a device, and describes its collective in *ret. */
static mrd_cc_kind
see_kernel(const mrd_collectives *collectives, const mrd_event *ev, mrd_kernel_class class,
           mrd_cc *ret)
{
    mrd_str called = arg_text(collectives, ev, MRD_KEY_COLLECTIVE);
    const mrd_track *track = mrd_catalog_borrow_track(collectives->cat, ev->track);
    char form[256];
    mrd_str word = mrd_kernel_name_form(
        called.len > 0 ? called : mrd_catalog_text(collectives->cat, ev->name), form, sizeof(form));
    int64_t members = 0, out = 0;
    mrd_cc_kind kind = operations[class].kind;
    bool uneven = operations[class].uneven;

    ret->traffic = operations[class].traffic;
    ret->op = hash_text(arg_text(collectives, ev, MRD_KEY_ELEMENT_TYPE), hash_text(word, 0));
    ret->group = hash_text(
        arg_text(collectives, ev, MRD_KEY_GROUP_RANKS),
        hash_text(arg_text(collectives, ev, MRD_KEY_GROUP_NAME), hash_text(MRD_STR("nccl"), 0)));
    if (arg_int(collectives, ev, MRD_KEY_GROUP_SIZE, &members)) {
        ret->group = mrd_hash64(&members, sizeof(members), ret->group);
        if (members == 1)
            return MRD_CC_LOOSE; /* the only member of a group has no other member to wait for */
    }
    ret->ordered = false;
    ret->world = members == 0 && arg_text(collectives, ev, MRD_KEY_GROUP_RANKS).len == 0 &&
                 arg_text(collectives, ev, MRD_KEY_GROUP_NAME).len == 0;
    ret->listed = arg_text(collectives, ev, MRD_KEY_GROUP_RANKS).len > 0 &&
                  !is_cut(arg_text(collectives, ev, MRD_KEY_GROUP_RANKS));
    ret->seq = -1;
    ret->lasting = false;
    put_seq(collectives, ev, MRD_KEY_COMMS_ID, ret);
    /* each call replaces the number of the previous one, if the event has this argument */
    put_seq(collectives, ev, MRD_KEY_COMMS, ret);
    put_seq(collectives, ev, MRD_KEY_COLLECTIVE_SEQ, ret);
    if (ret->world)
        members = mrd_catalog_borrow_process(collectives->cat, track->process)->world_size;
    ret->members = members > 0 && members < UINT32_MAX ? (uint32_t) members : 0;
    if (!ret->world && !is_possible(collectives, ev, members))
        return MRD_CC_WRONG;
    if (!arg_int(collectives, ev, MRD_KEY_IN_ELEMENTS, &ret->size))
        ret->size = -1;
    if (!arg_int(collectives, ev, MRD_KEY_OUT_ELEMENTS, &out))
        out = 0;
    ret->bytes = bytes_of(arg_text(collectives, ev, MRD_KEY_ELEMENT_TYPE), ret->size, out);
    if (kind == MRD_CC_SYNC &&
        ((ret->size == 0 && class != MRD_CLASS_BARRIER) ||
         (uneven && (has_zero(arg_text(collectives, ev, MRD_KEY_IN_SPLIT)) ||
                     has_zero(arg_text(collectives, ev, MRD_KEY_OUT_SPLIT))))))
        return MRD_CC_LOOSE; /* a member that receives no data may leave early */
    if (uneven)
        ret->size = -1;
    if (called.len == 0 && !see_hlo(collectives, ev, ret))
        return MRD_CC_LOOSE;
    return kind;
}

static mrd_cc_kind
see_running(const mrd_collectives *collectives, const mrd_event *ev, mrd_cc *ret)
{
    int64_t gid, op;

    if (!arg_int(collectives, ev, MRD_KEY_GID, &gid) || !arg_int(collectives, ev, MRD_KEY_OP, &op))
        return MRD_CC_LOOSE; /* group or operation unknown */
    ret->group = mrd_hash64(&gid, sizeof(gid), hash_text(MRD_STR("cc_running"), 0));
    ret->members = 0;
    ret->world = ret->listed = ret->lasting = ret->ordered = false;
    ret->seq = -1;
    ret->bytes = 0;
    ret->traffic = MRD_CC_TRAFFIC_UNKNOWN;
    ret->op = mrd_hash64(&op, sizeof(op), 0);
    if (!arg_int(collectives, ev, MRD_KEY_SIZE, &ret->size))
        ret->size = -1;
    return MRD_CC_SYNC;
}

/* Returns the number of elements in a list of dimensions such as "[[4, 8], [2]]". -1 if the text
 * contains no dimensions, or if the number is too large. */
static int64_t
elements_of(mrd_str dims)
{
    int64_t sum = -1;

    for (size_t i = 0; i < dims.len; i++) {
        size_t end = i + 1;
        int64_t product = 1;
        mrd_str list;
        uint64_t number;

        if (dims.p[i] != '[')
            continue;
        while (end < dims.len && dims.p[end] != '[' && dims.p[end] != ']')
            end++;
        if (end == dims.len)
            return -1;
        list = (mrd_str){ dims.p + i + 1, end - i - 1 };
        if (dims.p[end] == '[')
            continue; /* the list contains lists, which follow */
        while (next_number(&list, &number)) {
            if (__builtin_mul_overflow(product, (int64_t) number, &product))
                return -1;
        }
        if (i == 0 || __builtin_add_overflow(sum < 0 ? 0 : sum, product, &sum))
            return -1; /* "[]" states no input */
        i = end;
    }
    return sum;
}

/* Returns the first text of a list such as ["float", "int"]. */
static mrd_str
first_text(mrd_str list)
{
    const char *begin = memchr(list.p, '"', list.len), *end;

    if (begin == NULL)
        return MRD_STR("");
    begin++;
    end = memchr(begin, '"', (size_t) (list.p + list.len - begin));
    return end == NULL ? MRD_STR("") : (mrd_str){ begin, (size_t) (end - begin) };
}

/* Describes a collective that a library executed on the host. */
static mrd_cc_kind
see_host(const mrd_collectives *collectives, const mrd_event *ev, mrd_kernel_class *ret_class,
         mrd_cc *ret)
{
    const mrd_track *track = mrd_catalog_borrow_track(collectives->cat, ev->track);
    const mrd_process *process = mrd_catalog_borrow_process(collectives->cat, track->process);
    mrd_str name = mrd_catalog_text(collectives->cat, ev->name),
            type = first_text(arg_text(collectives, ev, MRD_KEY_INPUT_TYPE));
    const char *colon = memchr(name.p, ':', name.len);
    mrd_kernel_class class = mrd_kernel_class_of_operation(
        (mrd_str){ colon + 1, (size_t) (name.p + name.len - colon - 1) });

    *ret_class = class;
    *ret = (mrd_cc){ .group = hash_text((mrd_str){ name.p, (size_t) (colon - name.p) }, 0),
                     .op = hash_text(type, hash_text(name, 0)),
                     .size = elements_of(arg_text(collectives, ev, MRD_KEY_INPUT_DIMS)),
                     .world = true,
                     .ordered = true,
                     .seq = -1,
                     .traffic = operations[class].traffic };
    if (process->world_size > 0 && process->world_size < UINT32_MAX)
        ret->members = (uint32_t) process->world_size;
    ret->bytes = bytes_of(type, ret->size, 0);
    if (operations[class].uneven)
        ret->size = -1;
    /* Which of several groups a collective belongs to is unknown. */
    if (process->flags & MRD_PROC_GROUPS)
        return MRD_CC_LOOSE;
    return operations[class].kind == MRD_CC_SYNC ? MRD_CC_SYNC : MRD_CC_LOOSE;
}

static name_class
class_of(mrd_collectives *collectives, mrd_sid name)
{
    if (name >= collectives->n)
        return NAME_OTHER;
    if (collectives->classes[name] == NAME_UNSEEN)
        collectives->classes[name] = (uint8_t) classify(mrd_catalog_text(collectives->cat, name));
    return (name_class) collectives->classes[name];
}

mrd_device_work *
mrd_collectives_work(const mrd_collectives *collectives)
{
    return collectives->work;
}

bool
mrd_collectives_named(mrd_collectives *collectives, mrd_sid name)
{
    name_class is = class_of(collectives, name);

    return is != NAME_OTHER && (is != NAME_HOST || collectives->on_host);
}

bool
mrd_collectives_on_host(const mrd_collectives *collectives)
{
    return collectives->on_host;
}

mrd_cc_kind
mrd_collectives_see(mrd_collectives *collectives, const mrd_event *ev, mrd_cc *ret_cc)
{
    mrd_kernel_class class;

    return mrd_collectives_see_class(collectives, ev, &class, ret_cc);
}

mrd_cc_kind
mrd_collectives_see_class(mrd_collectives *collectives, const mrd_event *ev,
                          mrd_kernel_class *ret_class, mrd_cc *ret_cc)
{
    *ret_class = MRD_CLASS_COMPUTE;
    if (ev->kind != MRD_SPAN || ev->dur_ns < 0 || (ev->flags & MRD_EV_NO_START))
        return MRD_CC_NO;
    switch (class_of(collectives, ev->name)) {
    case NAME_RUNNING:
        return see_running(collectives, ev, ret_cc);
    case NAME_BARRIER:
        *ret_cc =
            (mrd_cc){ .group = hash_text(MRD_STR("cc_exec_barrier"), 0), .size = -1, .seq = -1 };
        return MRD_CC_BARRIER;
    case NAME_SAYS_ALL:
        return MRD_CC_SAYS_ALL;
    case NAME_SAYS_SINGLE:
        return MRD_CC_SAYS_SINGLE;
    case NAME_HOST:
        if (collectives->on_host && ev->category != collectives->dumped)
            return see_host(collectives, ev, ret_class, ret_cc);
        break;
    case NAME_UNSEEN:
    case NAME_OTHER:
        break;
    }
    if (!mrd_device_work_on(collectives->work, ev->track))
        return MRD_CC_NO;
    *ret_class = mrd_device_work_class(collectives->work, ev);
    return mrd_class_communicates(*ret_class) ? see_kernel(collectives, ev, *ret_class, ret_cc)
                                              : MRD_CC_NO;
}

bool
mrd_collectives_all_to_all(const mrd_catalog *cat)
{
    size_t n = mrd_strtab_count(mrd_catalog_strings(cat));
    bool all = false;

    for (mrd_sid sid = 1; sid < n; sid++) {
        name_class is = classify(mrd_catalog_text(cat, sid));

        if (is == NAME_SAYS_SINGLE)
            return false;
        all = all || is == NAME_SAYS_ALL;
    }
    return all;
}

/* ---- Names for messages ---- */

/* Appends a text, cut to TEXT_SHOWN bytes. */
static void
put_short(mrd_buf *to, mrd_str text)
{
    mrd_buf_str(to, text.len <= TEXT_SHOWN ? text : (mrd_str){ text.p, TEXT_SHOWN });
    mrd_buf_text(to, text.len <= TEXT_SHOWN ? "" : "...");
}

/* Appends an argument that is a number, such as "gid 5". */
static void
put_number(const mrd_collectives *collectives, const mrd_event *ev, unsigned key, mrd_buf *to)
{
    int64_t v;

    if (arg_int(collectives, ev, key, &v))
        mrd_buf_fmt(to, "%s %" PRId64, mrd_arg_key_text(key), v);
}

static void
put_group(const mrd_collectives *collectives, const mrd_event *ev, name_class is, mrd_buf *to)
{
    mrd_str name = arg_text(collectives, ev, MRD_KEY_GROUP_NAME),
            ranks = arg_text(collectives, ev, MRD_KEY_GROUP_RANKS);

    if (is == NAME_RUNNING) {
        put_number(collectives, ev, MRD_KEY_GID, to);
        return;
    }
    put_short(to, name);
    if (ranks.len > 0) {
        mrd_buf_text(to, name.len > 0 ? " of ranks " : "of ranks ");
        put_short(to, ranks);
    }
    if (to->len == 0)
        mrd_buf_text(to, is == NAME_BARRIER ? "of all cores" : "of all ranks");
}

static void
put_operation(const mrd_collectives *collectives, const mrd_event *ev, name_class is, mrd_buf *to)
{
    mrd_str called = arg_text(collectives, ev, MRD_KEY_COLLECTIVE),
            type = is == NAME_HOST ? first_text(arg_text(collectives, ev, MRD_KEY_INPUT_TYPE))
                                   : arg_text(collectives, ev, MRD_KEY_ELEMENT_TYPE),
            name = mrd_catalog_text(collectives->cat, ev->name);

    if (is == NAME_RUNNING) {
        put_number(collectives, ev, MRD_KEY_OP, to);
        return;
    }
    put_short(to, called.len > 0 ? called : kernel_part(name));
    if (type.len > 0)
        mrd_buf_byte(to, ' ');
    put_short(to, type);
}

static void
keep(mrd_collectives *collectives, uint64_t hash, mrd_buf *text)
{
    char *copy;

    if (text->err != MRD_OK || collectives->n_texts == MRD_CC_TEXTS ||
        !MRD_VEC_ROOM(collectives->texts, collectives->n_texts, collectives->cap_texts, 1) ||
        (copy = mrd_str_dup((mrd_str){ (const char *) text->p, text->len })) == NULL)
        return;
    if (mrd_map_put(&collectives->text_of, (mrd_map_key){ hash, 0, 0 },
                    (uint32_t) collectives->n_texts) != MRD_OK) {
        free(copy);
        return;
    }
    collectives->texts[collectives->n_texts++] = copy;
}

void
mrd_collectives_remember(mrd_collectives *collectives, const mrd_event *ev, const mrd_cc *cc)
{
    const struct {
        uint64_t hash;
        void (*put)(const mrd_collectives *collectives, const mrd_event *ev, name_class is,
                    mrd_buf *to);
    } parts[] = { { cc->group, put_group }, { cc->op, put_operation } };
    name_class is = class_of(collectives, ev->name);

    for (size_t i = 0; i < MRD_COUNT(parts); i++) {
        mrd_buf text = { 0 };

        if (mrd_collectives_text(collectives, parts[i].hash) != NULL)
            continue;
        parts[i].put(collectives, ev, is, &text);
        keep(collectives, parts[i].hash, &text);
        mrd_buf_fini(&text);
    }
}

const char *
mrd_collectives_text(const void *collectives, uint64_t hash)
{
    const mrd_collectives *c = collectives;
    uint32_t i = mrd_map_get(&c->text_of, (mrd_map_key){ hash, 0, 0 });

    return i == MRD_MAP_NONE ? NULL : c->texts[i];
}

uint64_t
mrd_cc_bus_bytes(mrd_cc_traffic traffic, uint64_t bytes, uint32_t n)
{
    uint64_t part = bytes / n * (n - 1) + bytes % n * (n - 1) / n;

    return traffic == MRD_CC_TRAFFIC_ONE     ? bytes
           : traffic == MRD_CC_TRAFFIC_PARTS ? part
           : traffic == MRD_CC_TRAFFIC_TWICE ? 2 * part
                                             : 0;
}
