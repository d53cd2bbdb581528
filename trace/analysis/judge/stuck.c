#include "trace/analysis/judge/stuck.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/map.h"
#include "base/num.h"
#include "base/obj.h"
#include "base/vec.h"
#include "trace/analysis/kernel_names.h"
#include "trace/model/arg_keys.h"
#include "trace/model/comm_group.h"

/* By how many collectives of unknown kind a rank may be behind another rank. The source of a
 * broadcast does not wait and runs ahead. A larger distance shows that the dumps were written at
 * different times of a running job. */
#define AHEAD_MOST 8

#define NOBODY UINT32_MAX

typedef struct {
    int64_t rank;
    bool has_dump, is_twice; /* is_twice: several dumps have this rank */
    bool has_open;           /* an operation is open */
    bool waits, is_waited_for, is_inside;
    bool is_cut;          /* the dump is damaged, so it may lack the last operations */
    bool is_behind;       /* the rank certainly did not enter a collective in which others wait */
    bool is_explained;    /* the rank has no dump, or waits for a rank that is explained */
    mrd_stuck_rank named; /* evidence against this rank, if others wait for it */
    mrd_ev_ns since;      /* begin of the operation of `named` */
} one_rank;

typedef struct {
    uint32_t rank; /* index in `ranks` */
    bool has_entries;
    int64_t entered;   /* last collective that the rank entered; MRD_NONE if unknown */
    int64_t completed; /* last collective that certainly completed; MRD_NONE if unknown */
    int64_t open;      /* first open collective; INT64_MAX if no collective is open */
    mrd_sid op;        /* operation of `open` */
    mrd_ev_ns begin;   /* when the rank entered `open` */
    uint64_t form;     /* hash of the size and type of `open`; 0 if members may differ */
} member;

typedef struct {
    mrd_sid name, what;
    member *members;
    size_t n, cap;
    bool is_listed; /* the trace states the members' ranks; they are the first `listed` members */
    size_t listed;
    bool has_messages;
} group;

/* An open message between two ranks. */
typedef struct {
    uint32_t group, from, to; /* `from` is the rank that recorded it */
    bool is_send;
    mrd_sid name;
    mrd_ev_ns begin;
} message;

struct mrd_stuck {
    const mrd_catalog *cat;
    const mrd_strtab *strings;
    mrd_sid category, description, keys[MRD_ARG_KEYS];
    one_rank *ranks;
    size_t n_ranks, cap_ranks;
    mrd_map rank_of;
    group *groups;
    size_t n_groups, cap_groups;
    mrd_map group_of;  /* maps name and list of ranks to an index in `groups` */
    mrd_map member_of; /* maps group and rank to an index in `members` of the group */
    mrd_map class_of;  /* maps group and number of a collective to its mrd_kernel_class */
    message *messages;
    size_t n_messages, cap_messages;
    /* maps group, sender, receiver and direction of an open message to its index in `messages` */
    mrd_map message_of;
    mrd_stuck_rank *named;
    size_t n_named;
    bool any; /* the profile has entries or groups of a flight recorder */
    mrd_stuck_verdict verdict;
};

/* ---- Tables ---- */

/* Returns the index of a rank, and adds the rank if it is new. NOBODY if out of memory. */
static uint32_t
rank_at(mrd_stuck *stuck, int64_t rank)
{
    mrd_map_key key = { (uint64_t) rank, 0, 0 };
    uint32_t at = mrd_map_get(&stuck->rank_of, key);

    if (at != MRD_MAP_NONE)
        return at;
    if (!MRD_VEC_ROOM(stuck->ranks, stuck->n_ranks, stuck->cap_ranks, 1) ||
        mrd_map_put(&stuck->rank_of, key, (uint32_t) stuck->n_ranks) != MRD_OK)
        return NOBODY;
    stuck->ranks[stuck->n_ranks] = (one_rank){ .rank = rank };
    return (uint32_t) stuck->n_ranks++;
}

/* Returns the member of a group, and adds it if it is new. NULL if out of memory. */
static member *
member_at(mrd_stuck *stuck, uint32_t at, uint32_t rank)
{
    group *g = &stuck->groups[at];
    mrd_map_key key = { at, rank, 0 };
    uint32_t i = mrd_map_get(&stuck->member_of, key);

    if (i != MRD_MAP_NONE)
        return &g->members[i];
    if (!MRD_VEC_ROOM(g->members, g->n, g->cap, 1) ||
        mrd_map_put(&stuck->member_of, key, (uint32_t) g->n) != MRD_OK)
        return NULL;
    g->members[g->n] =
        (member){ .rank = rank, .entered = MRD_NONE, .completed = MRD_NONE, .open = INT64_MAX };
    return &g->members[g->n++];
}

/* Adds the members in a list such as "[0, 1]". Ignores a list that is cut. */
static mrd_err
list_members(mrd_stuck *stuck, uint32_t at, mrd_str list)
{
    mrd_str digits = { list.p, 0 };

    for (size_t i = 0; i < list.len; i++)
        if (strchr("0123456789[], ", list.p[i]) == NULL)
            return MRD_OK;
    for (size_t i = 0; i <= list.len; i++) {
        bool is_digit = i < list.len && list.p[i] >= '0' && list.p[i] <= '9';
        uint32_t index;
        int64_t rank;

        if (is_digit) {
            digits.p = digits.len == 0 ? list.p + i : digits.p;
            digits.len++;
        }
        if (is_digit || digits.len == 0)
            continue;
        if (mrd_num_i64(digits, &rank) == MRD_OK &&
            ((index = rank_at(stuck, rank)) == NOBODY || member_at(stuck, at, index) == NULL))
            return MRD_NOMEM;
        digits.len = 0;
    }
    stuck->groups[at].listed = stuck->groups[at].n;
    stuck->groups[at].is_listed = stuck->groups[at].n > 0;
    return MRD_OK;
}

/* Stores the index of a group, which is added if it is new. Groups of different ranks with one name
 * are different groups. */
static mrd_err
group_at(mrd_stuck *stuck, mrd_sid name, mrd_sid what, mrd_str ranks, uint32_t *ret)
{
    mrd_map_key key = { name, mrd_hash64(ranks.p, ranks.len, 1), ranks.len };
    uint32_t at = mrd_map_get(&stuck->group_of, key);

    if (at == MRD_MAP_NONE) {
        at = (uint32_t) stuck->n_groups;
        if (!MRD_VEC_ROOM(stuck->groups, stuck->n_groups, stuck->cap_groups, 1) ||
            mrd_map_put(&stuck->group_of, key, at) != MRD_OK)
            return MRD_NOMEM;
        stuck->groups[stuck->n_groups++] = (group){ .name = name, .what = what };
        if (list_members(stuck, at, ranks) != MRD_OK)
            return MRD_NOMEM;
    }
    *ret = at;
    return MRD_OK;
}

mrd_stuck *
mrd_stuck_new(const mrd_catalog *cat)
{
    mrd_stuck *stuck = calloc(1, sizeof(*stuck));
    size_t n;

    if (stuck == NULL)
        return NULL;
    stuck->cat = cat;
    stuck->strings = mrd_catalog_strings(cat);
    stuck->category = mrd_strtab_find(stuck->strings, MRD_STR("flight_recorder"));
    stuck->description = mrd_strtab_find(stuck->strings, MRD_STR("Process Group Description"));
    stuck->verdict.missing = MRD_NONE;
    for (unsigned i = 0; i < MRD_ARG_KEYS; i++)
        stuck->keys[i] = mrd_arg_key_find(stuck->strings, (mrd_arg_key) i);
    mrd_catalog_groups(cat, &n);
    stuck->any = n > 0;
    return stuck;
}

void
mrd_stuck_free(mrd_stuck *stuck)
{
    if (stuck == NULL)
        return;
    for (size_t i = 0; i < stuck->n_groups; i++)
        free(stuck->groups[i].members);
    free(stuck->groups);
    free(stuck->ranks);
    free(stuck->messages);
    free(stuck->named);
    mrd_map_fini(&stuck->rank_of);
    mrd_map_fini(&stuck->group_of);
    mrd_map_fini(&stuck->member_of);
    mrd_map_fini(&stuck->class_of);
    mrd_map_fini(&stuck->message_of);
    free(stuck);
}

/* ---- Entries ---- */

static mrd_str
text_of(const mrd_stuck *stuck, const mrd_event *ev, mrd_arg_key key)
{
    return mrd_arg_text(stuck->strings, mrd_event_arg(ev, stuck->keys[key]));
}

static mrd_sid
sid_of(const mrd_event *ev, mrd_sid key)
{
    const mrd_arg *arg = mrd_event_arg(ev, key);

    return arg != NULL && arg->type == MRD_ARG_STR ? arg->v.sid : MRD_SID_EMPTY;
}

static int64_t
int_of(const mrd_stuck *stuck, const mrd_event *ev, mrd_arg_key key)
{
    const mrd_arg *arg = mrd_event_arg(ev, stuck->keys[key]);

    return mrd_arg_is_int(arg) ? arg->v.i : MRD_NONE;
}

/* Returns a hash of the size and type of an operation that have to be equal at all members. 0 if
 * they may differ. */
static uint64_t
form_of(const mrd_stuck *stuck, const mrd_event *ev, mrd_kernel_class class)
{
    mrd_str type = text_of(stuck, ev, MRD_KEY_ELEMENT_TYPE);
    int64_t in = int_of(stuck, ev, MRD_KEY_IN_ELEMENTS);

    return class == MRD_CLASS_ALLREDUCE || class == MRD_CLASS_ALLGATHER ||
                   class == MRD_CLASS_REDUCESCATTER
               ? mrd_hash64(type.p, type.len, (uint64_t) in + 1)
               : 0;
}

/* Returns the key of the messages that rank `from` has open for rank `to`. */
static mrd_map_key
message_key(uint32_t at, uint32_t from, uint32_t to, bool is_send)
{
    return (mrd_map_key){ at, (uint64_t) from << 32 | to, is_send };
}

/* Adds an open message: "nccl:send 0->3" or "nccl:recv 3<-0". The numbers are positions in the
 * list of the group's ranks. */
static mrd_err
add_message(mrd_stuck *stuck, const mrd_event *ev, uint32_t at, uint32_t rank)
{
    group *g = &stuck->groups[at];
    mrd_str name = mrd_strtab_get(stuck->strings, ev->name);
    const char *arrow = memmem(name.p, name.len, "->", 2);
    bool is_send = arrow != NULL;
    int64_t peer;

    arrow = is_send ? arrow : memmem(name.p, name.len, "<-", 2);
    if (arrow == NULL)
        return MRD_OK;
    g->has_messages = true;
    arrow += 2;
    if (ev->dur_ns >= 0 || !g->is_listed ||
        mrd_num_i64((mrd_str){ arrow, (size_t) (name.p + name.len - arrow) }, &peer) != MRD_OK ||
        peer < 0 || (uint64_t) peer >= g->listed)
        return MRD_OK;
    if (!MRD_VEC_ROOM(stuck->messages, stuck->n_messages, stuck->cap_messages, 1))
        return MRD_NOMEM;
    stuck->ranks[rank].has_open = true;
    stuck->messages[stuck->n_messages++] = (message){ .group = at,
                                                      .from = rank,
                                                      .to = g->members[peer].rank,
                                                      .is_send = is_send,
                                                      .name = ev->name,
                                                      .begin = ev->ts };
    return mrd_map_put(&stuck->message_of, message_key(at, rank, g->members[peer].rank, is_send),
                       1);
}

mrd_err
mrd_stuck_add(mrd_stuck *stuck, const mrd_event *ev)
{
    const mrd_process *process;
    mrd_kernel_class class;
    uint32_t at, rank;
    int64_t seq;
    member *m;

    if (stuck->category == MRD_SID_EMPTY || ev->category != stuck->category || ev->kind != MRD_SPAN)
        return MRD_OK;
    stuck->any = true;
    process = mrd_catalog_borrow_process(stuck->cat,
                                         mrd_catalog_borrow_track(stuck->cat, ev->track)->process);
    if (process->rank < 0)
        return MRD_OK;
    if ((rank = rank_at(stuck, process->rank)) == NOBODY ||
        group_at(stuck, sid_of(ev, stuck->keys[MRD_KEY_GROUP_NAME]), sid_of(ev, stuck->description),
                 text_of(stuck, ev, MRD_KEY_GROUP_RANKS), &at) != MRD_OK)
        return MRD_NOMEM;
    if ((seq = int_of(stuck, ev, MRD_KEY_COLLECTIVE_SEQ)) < 0)
        return add_message(stuck, ev, at, rank);
    if ((m = member_at(stuck, at, rank)) == NULL)
        return MRD_NOMEM;
    class = mrd_kernel_class_of_operation(text_of(stuck, ev, MRD_KEY_COLLECTIVE));
    m->has_entries = true;
    m->entered = seq > m->entered ? seq : m->entered;
    if (ev->dur_ns >= 0)
        m->completed = seq > m->completed ? seq : m->completed;
    else
        stuck->ranks[rank].has_open = true;
    if (ev->dur_ns < 0 && seq < m->open) {
        m->open = seq;
        m->op = sid_of(ev, stuck->keys[MRD_KEY_COLLECTIVE]);
        m->begin = ev->ts;
        m->form = form_of(stuck, ev, class);
    }
    return mrd_map_put(&stuck->class_of, (mrd_map_key){ at, (uint64_t) seq, 0 }, (uint32_t) class);
}

/* Returns true if no member can complete this collective before all have entered. An all-to-all
 * does not count, because a member may send nothing to another one. */
static bool
synchronises(const mrd_stuck *stuck, uint32_t at, int64_t seq)
{
    uint32_t class = mrd_map_get(&stuck->class_of, (mrd_map_key){ at, (uint64_t) seq, 0 });

    return class == MRD_CLASS_ALLREDUCE || class == MRD_CLASS_ALLGATHER ||
           class == MRD_CLASS_REDUCESCATTER || class == MRD_CLASS_BARRIER;
}

/* ---- Knowledge of each rank ---- */

/* Finds the ranks that left a dump, and the missing ones. */
static mrd_err
find_dumps(mrd_stuck *stuck)
{
    int64_t world = 0;

    for (mrd_proc_id i = 0; i < mrd_catalog_processes(stuck->cat); i++) {
        const mrd_process *process = mrd_catalog_borrow_process(stuck->cat, i);
        uint32_t rank;

        if (process->rank < 0 || process->profile != 0 || (process->flags & MRD_PROC_NODE) != 0)
            continue;
        if ((rank = rank_at(stuck, process->rank)) == NOBODY)
            return MRD_NOMEM;
        stuck->ranks[rank].is_twice = stuck->ranks[rank].has_dump;
        stuck->ranks[rank].has_dump = true;
        stuck->ranks[rank].is_cut = (process->flags & MRD_PROC_CUT) != 0;
        world = process->world_size > world ? process->world_size : world;
    }
    for (int64_t rank = 0; rank < world && rank < 1 << 20; rank++)
        if (rank_at(stuck, rank) == NOBODY)
            return MRD_NOMEM;
    for (size_t i = 0; i < stuck->n_ranks; i++) {
        const one_rank *r = &stuck->ranks[i];

        stuck->verdict.dumps += r->has_dump;
        stuck->verdict.open += r->has_open;
        if (!r->has_dump && (stuck->verdict.n_missing++ == 0 || r->rank < stuck->verdict.missing))
            stuck->verdict.missing = r->rank;
    }
    return MRD_OK;
}

/* Adds the numbers of entered and completed collectives that dumps state for each group. They also
 * exist for ranks without entries. */
static mrd_err
add_counts(mrd_stuck *stuck)
{
    size_t n;
    const mrd_comm_group *of = mrd_catalog_groups(stuck->cat, &n);

    for (size_t i = 0; i < n; i++) {
        int64_t rank = mrd_catalog_borrow_process(stuck->cat, of[i].process)->rank;
        uint32_t at, index;
        member *m;

        if (rank < 0 || of[i].entered < 0)
            continue;
        if ((index = rank_at(stuck, rank)) == NOBODY ||
            group_at(stuck, of[i].name, of[i].what, mrd_catalog_text(stuck->cat, of[i].ranks),
                     &at) != MRD_OK)
            return MRD_NOMEM;
        if (stuck->groups[at].has_messages)
            continue;
        if ((m = member_at(stuck, at, index)) == NULL)
            return MRD_NOMEM;
        m->entered = of[i].entered > m->entered ? of[i].entered : m->entered;
        m->completed = of[i].completed > m->completed ? of[i].completed : m->completed;
    }
    for (size_t i = 0; i < stuck->n_groups; i++)
        for (size_t k = 0; k < stuck->groups[i].n; k++) {
            member *m = &stuck->groups[i].members[k];

            /* A group's collectives complete in order. */
            if (m->open != INT64_MAX)
                m->completed = m->open - 1;
        }
    return MRD_OK;
}

/* Stores the member with the last open collective of a group, and the number of the last completed
 * collective of any member. Returns false if no collective is open. */
static bool
fronts(const group *g, const member **ret_last_open, int64_t *ret_completed)
{
    const member *last = NULL;

    *ret_completed = MRD_NONE;
    for (size_t i = 0; i < g->n; i++) {
        const member *m = &g->members[i];

        if (m->open != INT64_MAX && (last == NULL || m->open > last->open))
            last = m;
        *ret_completed = m->completed > *ret_completed ? m->completed : *ret_completed;
    }
    *ret_last_open = last;
    return last != NULL;
}

/* Returns true if a member completed a collective that another one had not entered. */
static bool
contradicts(mrd_stuck *stuck, uint32_t at)
{
    const group *g = &stuck->groups[at];
    const member *last;
    int64_t completed;

    (void) fronts(g, &last, &completed);
    for (size_t i = 0; i < g->n; i++) {
        const member *m = &g->members[i];
        bool impossible = m->entered >= 0 && completed - m->entered > AHEAD_MOST;

        if (m->entered < 0 || !stuck->ranks[m->rank].has_dump || stuck->ranks[m->rank].is_cut)
            continue;
        for (int64_t seq = m->entered + 1; seq <= completed && !impossible; seq++)
            impossible = synchronises(stuck, at, seq);
        if (!impossible)
            continue;
        snprintf(stuck->verdict.reason, sizeof(stuck->verdict.reason),
                 "the dumps were written while the job made progress: in group %.40s, a rank "
                 "completed number %" PRId64 " and rank %" PRId64 " had entered only %" PRId64,
                 mrd_strtab_get(stuck->strings, g->name).p, completed, stuck->ranks[m->rank].rank,
                 m->entered);
        return true;
    }
    return false;
}

/* Returns the number of members in which a collective after number `entered` is open, and one of
 * them with the lowest such number. */
static size_t
waiting_after(const group *g, int64_t entered, const member **ret_first)
{
    size_t n = 0;

    *ret_first = NULL;
    for (size_t i = 0; i < g->n; i++) {
        const member *m = &g->members[i];

        if (m->open == INT64_MAX || m->open <= entered)
            continue;
        n++;
        if (*ret_first == NULL || m->open < (*ret_first)->open)
            *ret_first = m;
    }
    return n;
}

/* Stores evidence against a rank: `in` is an open operation of the group. Evidence of a higher
 * class is stronger, and then an operation that began earlier, because it is closer to the
 * cause. */
static void
accuse(one_rank *r, mrd_stuck_class cls, const group *g, const member *in, size_t waiting)
{
    if (r->named.cls > cls || (r->named.cls == cls && !mrd_ev_before(in->begin, r->since)))
        return;
    r->since = in->begin;
    r->named = (mrd_stuck_rank){ .rank = r->rank,
                                 .cls = cls,
                                 .op = in->op,
                                 .group = g->name,
                                 .what = g->what,
                                 .seq = in->open,
                                 .waiting = waiting,
                                 .members = g->n };
}

/* Finds which members of a group wait for which, and which members do not leave a collective that
 * others left. */
static void
look_at_group(mrd_stuck *stuck, uint32_t at)
{
    const group *g = &stuck->groups[at];
    const member *last, *first;
    int64_t completed, least = INT64_MAX;

    if (!fronts(g, &last, &completed))
        return;
    for (size_t i = 0; i < g->n; i++) {
        const member *m = &g->members[i];
        one_rank *r = &stuck->ranks[m->rank];

        if (m->entered < last->open) {
            size_t waiting = waiting_after(g, m->entered, &first);

            r->is_waited_for = true;
            r->is_behind = r->is_behind || (m->entered >= 0 && !r->is_cut);
            accuse(r, MRD_STUCK_NOT_ENTERED, g, first, waiting);
        }
        least = m->entered < least ? m->entered : least;
        if (m->open <= completed && synchronises(stuck, at, m->open)) {
            r->is_inside = true;
            accuse(r, MRD_STUCK_INSIDE, g, m, 1);
        }
    }
    for (size_t i = 0; i < g->n; i++)
        if (g->members[i].open != INT64_MAX && least < g->members[i].open)
            stuck->ranks[g->members[i].rank].waits = true;
}

/* Returns true if the peer of a message has an open message for it. */
static bool
has_counterpart(const mrd_stuck *stuck, const message *m)
{
    return mrd_map_get(&stuck->message_of, message_key(m->group, m->to, m->from, !m->is_send)) !=
           MRD_MAP_NONE;
}

static void
look_at_messages(mrd_stuck *stuck)
{
    for (size_t i = 0; i < stuck->n_messages; i++) {
        const message *m = &stuck->messages[i];
        one_rank *to = &stuck->ranks[m->to];
        member in = { .open = MRD_NONE, .op = m->name, .begin = m->begin };

        if (has_counterpart(stuck, m))
            continue;
        stuck->ranks[m->from].waits = true;
        to->is_waited_for = true;
        if (to->named.cls < MRD_STUCK_NOT_ENTERED) /* a collective is stronger evidence */
            accuse(to, MRD_STUCK_NOT_ENTERED, &stuck->groups[m->group], &in, 1);
    }
}

/* ---- The verdict ---- */

static int
rank_order(const void *a, const void *b)
{
    const mrd_stuck_rank *x = a, *y = b;

    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Names the ranks that `is_named` selects. Returns their number. */
static size_t
name(mrd_stuck *stuck, bool (*is_named)(const one_rank *r))
{
    for (size_t i = 0; i < stuck->n_ranks; i++)
        if (is_named(&stuck->ranks[i]))
            stuck->named[stuck->n_named++] = stuck->ranks[i].named;
    if (stuck->n_named > 0) {
        qsort(stuck->named, stuck->n_named, sizeof(*stuck->named), rank_order);
        stuck->verdict.cls = stuck->named[0].cls;
    }
    return stuck->n_named;
}

static bool
is_culprit(const one_rank *r)
{
    return r->is_inside || (r->has_dump && r->is_behind && !r->waits && !r->has_open);
}

static bool
is_other(const one_rank *r)
{
    return r->named.cls == MRD_STUCK_OTHER;
}

static bool
is_missing(const one_rank *r)
{
    return !r->has_dump && r->is_waited_for;
}

static void
refuse(mrd_stuck *stuck, mrd_stuck_class cls, const char *why)
{
    stuck->verdict.cls = cls;
    stuck->n_named = 0;
    snprintf(stuck->verdict.reason, sizeof(stuck->verdict.reason), "%s", why);
}

static bool
is_alike(const member *a, const member *b)
{
    return a->open == b->open && a->op == b->op && a->form == b->form;
}

/* Finds members of a group that are in another operation than most, or with another size. Returns
 * true if members differ and none of the operations has more than half of them. */
static bool
look_for_other(mrd_stuck *stuck, uint32_t at)
{
    const group *g = &stuck->groups[at];
    const member *most = NULL;
    size_t score = 0, n = 0, alike = 0;

    for (size_t i = 0; i < g->n; i++) {
        const member *m = &g->members[i];

        if (m->open == INT64_MAX)
            continue;
        n++;
        if (score == 0)
            most = m;
        score = is_alike(m, most) ? score + 1 : score - 1;
    }
    for (size_t i = 0; i < g->n; i++)
        alike += g->members[i].open != INT64_MAX && is_alike(&g->members[i], most);
    if (n < 2 || alike == n)
        return false;
    for (size_t i = 0; i < g->n; i++) {
        const member *m = &g->members[i];
        one_rank *r = &stuck->ranks[m->rank];

        if (m->open != most->open || is_alike(m, most) || alike <= n / 2)
            continue;
        r->named.cls = MRD_STUCK_NOTHING; /* earlier evidence did not suffice */
        accuse(r, MRD_STUCK_OTHER, g, most, alike);
    }
    return alike <= n / 2;
}

/* Returns true if each rank with open operations waits for ranks without a dump, directly or
 * through other ranks that wait. */
static bool
missing_explain(mrd_stuck *stuck)
{
    bool changed = true;

    for (size_t i = 0; i < stuck->n_ranks; i++)
        stuck->ranks[i].is_explained = is_missing(&stuck->ranks[i]);
    while (changed) {
        changed = false;
        for (size_t i = 0; i < stuck->n_groups; i++) {
            const group *g = &stuck->groups[i];
            int64_t least = INT64_MAX;

            for (size_t k = 0; k < g->n; k++)
                if (stuck->ranks[g->members[k].rank].is_explained && g->members[k].entered < least)
                    least = g->members[k].entered;
            for (size_t k = 0; k < g->n; k++) {
                one_rank *r = &stuck->ranks[g->members[k].rank];
                bool now = g->members[k].open != INT64_MAX && least < g->members[k].open;

                changed = changed || (now && !r->is_explained);
                r->is_explained = r->is_explained || now;
            }
        }
        for (size_t i = 0; i < stuck->n_messages; i++) {
            const message *m = &stuck->messages[i];

            if (stuck->ranks[m->from].is_explained || !stuck->ranks[m->to].is_explained ||
                has_counterpart(stuck, m))
                continue;
            stuck->ranks[m->from].is_explained = changed = true;
        }
    }
    for (size_t i = 0; i < stuck->n_ranks; i++)
        if (stuck->ranks[i].has_open && !stuck->ranks[i].is_explained)
            return false;
    return true;
}

static void
judge(mrd_stuck *stuck)
{
    bool tie = false;

    for (size_t i = 0; i < stuck->n_ranks; i++)
        if (stuck->ranks[i].is_twice) {
            refuse(stuck, MRD_STUCK_CANNOT_TELL, "several dumps are of the same rank");
            return;
        }
    for (uint32_t i = 0; i < stuck->n_groups; i++)
        if (contradicts(stuck, i)) {
            stuck->verdict.cls = MRD_STUCK_RUNNING;
            return;
        }
    for (uint32_t i = 0; i < stuck->n_groups; i++)
        look_at_group(stuck, i);
    look_at_messages(stuck);
    if (name(stuck, is_culprit) > 0) {
        size_t held = 0; /* ranks that are named and have open operations */

        for (size_t i = 0; i < stuck->n_ranks; i++)
            held += stuck->ranks[i].has_open && is_culprit(&stuck->ranks[i]);
        if (held == stuck->verdict.open)
            refuse(stuck, MRD_STUCK_CANNOT_TELL, "no other rank has open operations");
        else if (2 * stuck->n_named > stuck->verdict.dumps)
            refuse(stuck, MRD_STUCK_CANNOT_TELL, "the others wait for more than half of the ranks");
        return;
    }
    for (uint32_t i = 0; i < stuck->n_groups; i++)
        tie = look_for_other(stuck, i) || tie;
    if (name(stuck, is_other) > 0)
        return;
    for (size_t i = 0; i < stuck->n_ranks; i++)
        if (is_missing(&stuck->ranks[i]))
            stuck->ranks[i].named.cls = MRD_STUCK_UNSEEN;
    if (missing_explain(stuck) && name(stuck, is_missing) > 0)
        return;
    refuse(stuck, MRD_STUCK_CANNOT_TELL,
           tie ? "ranks of one group are in different operations, and none is in the majority"
           : stuck->verdict.n_missing > 0
               ? "dumps of ranks are missing, and open operations do not all wait for them"
               : "each rank for which others wait has open operations itself");
}

mrd_err
mrd_stuck_finish(mrd_stuck *stuck)
{
    mrd_err err;

    if (!stuck->any)
        return MRD_OK;
    if ((err = add_counts(stuck)) != MRD_OK || (err = find_dumps(stuck)) != MRD_OK)
        return err;
    if ((stuck->named = calloc(stuck->n_ranks + 1, sizeof(*stuck->named))) == NULL)
        return MRD_NOMEM;
    if (stuck->verdict.open > 0)
        judge(stuck);
    stuck->verdict.n = stuck->n_named;
    stuck->verdict.ranks = stuck->named;
    return MRD_OK;
}

const mrd_stuck_verdict *
mrd_stuck_verdict_of(const mrd_stuck *stuck)
{
    return &stuck->verdict;
}

const char *
mrd_stuck_class_text(mrd_stuck_class cls)
{
    static const char *const text[] = {
        [MRD_STUCK_NOTHING] = "nothing open",    [MRD_STUCK_RUNNING] = "running",
        [MRD_STUCK_CANNOT_TELL] = "cannot tell", [MRD_STUCK_UNSEEN] = "unseen",
        [MRD_STUCK_OTHER] = "other operation",   [MRD_STUCK_INSIDE] = "inside",
        [MRD_STUCK_NOT_ENTERED] = "not entered",
    };

    return (unsigned) cls < MRD_COUNT(text) ? text[cls] : "?";
}
