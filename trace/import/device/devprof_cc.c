#include "trace/import/device/devprof_cc.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/num.h"
#include "base/obj.h"

#define WORD_MAX 32

static const mrd_arg *
find(mrd_args *args, mrd_strtab *strings, const char *key)
{
    mrd_sid sid = mrd_strtab_find(strings, mrd_str_of(key));

    return sid == MRD_SID_EMPTY ? NULL : mrd_args_find(args, sid);
}

/* Returns the value of the event argument `key` if it is a non-negative integer, else -1. */
static int64_t
amount(mrd_args *args, mrd_strtab *strings, const char *key)
{
    const mrd_arg *arg = find(args, strings, key);

    return arg == NULL || arg->type != MRD_ARG_INT || arg->v.i < 0 ? -1 : arg->v.i;
}

static mrd_str
text(mrd_args *args, mrd_strtab *strings, const char *key)
{
    return mrd_arg_text(strings, find(args, strings, key));
}

/* Returns the number of members per replica group in a text such as "[[0,1],[2,3]]" (here 2) or
 * "[0,1]". Returns 0 if the groups differ in size or the text is invalid. */
static uint64_t
members(mrd_str groups)
{
    uint64_t count = 0, all = 0;
    bool in_number = false;

    for (size_t i = 0; i < groups.len; i++) {
        char c = groups.p[i];

        if (isdigit((unsigned char) c)) {
            count += !in_number;
            in_number = true;
            continue;
        }
        in_number = false;
        if (c == ']' && count > 0) {
            if (all != 0 && all != count)
                return 0;
            all = count;
            count = 0;
        } else if (c != '[' && c != ']' && c != ',' && c != ' ') {
            return 0; /* the text is truncated, or has another format */
        }
    }
    return count > 0 ? 0 : all;
}

typedef enum { OTHER, ALL_REDUCE, SHARED, PLAIN } cc_moves;

/* Returns the kind of a collective by its name, such as "All-Reduce". Compares only letters and
 * digits, without regard to case. */
static cc_moves
moves(mrd_str name)
{
    static const struct {
        const char *word;
        cc_moves moves;
    } rows[] = {
        { "allreduce", ALL_REDUCE }, { "allgather", SHARED }, { "reducescatter", SHARED },
        { "alltoall", SHARED },      { "broadcast", PLAIN },  { "sendrecv", PLAIN },
        { "permute", PLAIN },        { "send", PLAIN },       { "recv", PLAIN },
    };
    char word[WORD_MAX];
    size_t n = 0;

    for (size_t i = 0; i < name.len && n < WORD_MAX; i++)
        if (isalnum((unsigned char) name.p[i]))
            word[n++] = (char) tolower((unsigned char) name.p[i]);
    for (size_t i = 0; i < MRD_COUNT(rows); i++)
        if (mrd_str_is((mrd_str){ word, n }, rows[i].word))
            return rows[i].moves;
    return OTHER;
}

static int64_t
per_second(int64_t bytes, uint64_t times, uint64_t over, int64_t dur_ns)
{
    __int128 v = (__int128) bytes * MRD_SEC * (int64_t) times / ((__int128) over * dur_ns);

    return v > INT64_MAX ? INT64_MAX : (int64_t) v;
}

static void
put(mrd_args *args, mrd_strtab *strings, const char *key, int64_t v)
{
    if (find(args, strings, key) == NULL)
        mrd_args_int(args, mrd_args_key(args, mrd_str_of(key)), v);
}

static void
put_bandwidths(mrd_args *args, mrd_strtab *strings, int64_t dur_ns)
{
    cc_moves what = moves(text(args, strings, "operation"));
    int64_t in = amount(args, strings, "input_size"), out = amount(args, strings, "output_size");
    int64_t bytes = in > out ? in : out;
    uint64_t n = members(text(args, strings, "replica_group"));

    if (what == OTHER || bytes < 0 || ((in < 0 || out < 0) && what != ALL_REDUCE))
        return;
    put(args, strings, "algorithm_bandwidth", per_second(bytes, 1, 1, dur_ns));
    if (n >= 2 && n < UINT32_MAX)
        put(args, strings, "bus_bandwidth",
            what == PLAIN ? per_second(bytes, 1, 1, dur_ns)
                          : per_second(bytes, (n - 1) * (what == ALL_REDUCE ? 2 : 1), n, dur_ns));
}

void
mrd_devprof_cc(mrd_args *args, mrd_strtab *strings, const mrd_event *ev, int exp10)
{
    int64_t trigger = amount(args, strings, "trigger_start_ts"), trigger_ns;
    char digits[24];

    if (ev->kind != MRD_SPAN || ev->dur_ns < 0)
        return;
    if (ev->dur_ns > 0)
        put_bandwidths(args, strings, ev->dur_ns);
    snprintf(digits, sizeof(digits), "%" PRId64, trigger);
    if (trigger >= 0 && mrd_num_scaled(mrd_str_of(digits), exp10, &trigger_ns) == MRD_OK &&
        trigger_ns <= ev->ts.ns)
        put(args, strings, "cc_trigger_start_delay", ev->ts.ns - trigger_ns);
}
