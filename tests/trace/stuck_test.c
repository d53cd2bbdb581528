/*
 * Tests the search for the rank that caused a hang, in dumps of PyTorch's flight recorder
 * (trace/analysis/judge/stuck.h). The test simulates jobs with tensor, pipeline and data parallel
 * groups. Hosts enqueue operations ahead of their devices, and devices complete them in order. A
 * fault stops the host or the device of a rank until the job hangs. The importer reads the dumps,
 * and the verdict must name only ranks with the fault.
 */
#include "trace/analysis/judge/stuck.h"

#include "tests/seed.h"
#include "tests/trace/collect.h"
#include "tests/trace/events.h"
#include "tests/trace/pickle_make.h"

enum { RANKS = 32, GROUPS = 128, STEP_OPS = 64, STEPS = 14, OPS = STEP_OPS * STEPS };

typedef enum {
    HEALTHY,      /* dumps at different times of a running job */
    HOST_STUCK,   /* a rank enqueues nothing more */
    DEVICE_LOST,  /* operations of a rank do not complete, although it takes part in a few more */
    DEVICE_STUCK, /* the device of a rank takes part in nothing more */
    SKIPS,        /* a rank does not take part in an operation, and continues with the next one */
    OTHER_SIZE,   /* a rank enters an operation with another size */
    DEAD,         /* a rank ended, and left no dump */
    LINK,         /* the operations of a group do not complete */
    FAULTS
} fault;

static const char *const fault_names[] = { "healthy", "host stuck", "device lost", "device stuck",
                                           "skips",   "other size", "dead",        "link" };

typedef struct {
    const char *name;
    int group, peer; /* peer: position in the group, of a message */
    bool is_send, is_recv, is_root_first;
    int size;
} op;

typedef struct {
    int group, seq, message; /* message: number among the messages from one rank to another */
    int64_t created, completed;
    const op *what;
    int size;
    bool arrived;
} entry;

typedef struct {
    op step[STEP_OPS];
    int n_step;
    entry ops[OPS];
    int next, h, d; /* next operation of the program; number enqueued; number the device passed */
    int sends[RANKS], recvs[RANKS];
    int group_seq[GROUPS], p2p_seq[GROUPS];
} rank_state;

typedef struct {
    uint64_t r;
    int tp, pp, dp, n, ahead;
    bool only_active, has_status, is_eager, is_pickle;
    int ring;
    int n_groups, members[GROUPS][RANKS], size[GROUPS];
    char desc[GROUPS][16];
    int arrived[GROUPS][OPS];
    bool differs[GROUPS][OPS], root[GROUPS][OPS];
    int sent[RANKS][RANKS], received[RANKS][RANKS]; /* by sender and receiver */
    rank_state rank[RANKS];
    fault fault;
    bool is_culprit[RANKS];
    int at[RANKS], extra[RANKS]; /* operation at which the fault begins */
    int broken_group;
    int64_t now;
    mrd_buf dump[RANKS];
} job;

static int
below(job *j, int n)
{
    return (int) (test_rand(&j->r) % (uint64_t) n);
}

static int
group_add(job *j, const char *desc, int first, int stride, int n)
{
    int g = j->n_groups++;

    snprintf(j->desc[g], sizeof(j->desc[g]), "%s", desc);
    j->size[g] = n;
    for (int i = 0; i < n; i++)
        j->members[g][i] = first + i * stride;
    return g;
}

static int
position(const job *j, int g, int rank)
{
    for (int i = 0; i < j->size[g]; i++)
        if (j->members[g][i] == rank)
            return i;
    return -1;
}

static void
op_add(rank_state *s, op what)
{
    s->step[s->n_step++] = what;
}

static void
program(job *j, int rank, int tp, int pp, int dp, int micro)
{
    static const char *const kinds[] = { "all_reduce", "_all_gather_base", "_reduce_scatter_base",
                                         "all_to_all" };
    rank_state *s = &j->rank[rank];
    int stage = position(j, pp, rank);
    bool has_tp = j->size[tp] > 1;

    if (has_tp)
        op_add(s, (op){ "broadcast", tp, .is_root_first = true, .size = 8 });
    for (int m = 0; m < 2 * micro; m++) { /* forward, then backward */
        bool back = m >= micro;
        int from = back ? stage + 1 : stage - 1, to = back ? stage - 1 : stage + 1;

        if (from >= 0 && from < j->pp)
            op_add(s, (op){ "recv", pp, .peer = from, .is_recv = true, .size = 4 });
        for (int k = 0; k < 2 && has_tp; k++)
            op_add(s, (op){ kinds[(m + k) % 4], tp, .size = 16 + m });
        if (to >= 0 && to < j->pp)
            op_add(s, (op){ "send", pp, .peer = to, .is_send = true, .size = 4 });
    }
    for (int k = 0; k < 3 && j->size[dp] > 1; k++)
        op_add(s, (op){ k == 2 ? "_all_gather_base" : "_reduce_scatter_base", dp, .size = 99 });
    op_add(s, (op){ "all_reduce", 0, .size = 1 }); /* gradient norm, for which the host waits */
}

static void
job_make(job *j, uint64_t seed, fault kind)
{
    int micro;

    memset(j, 0, sizeof(*j));
    j->r = seed * 7919 + 13;
    j->fault = kind;
    do {
        j->tp = 1 << below(j, 3);
        j->pp = 1 << below(j, 3);
        j->dp = 1 << below(j, 3);
    } while ((j->n = j->tp * j->pp * j->dp) < 2 || j->n > RANKS);
    j->ahead = 1 + below(j, 30);
    j->only_active = below(j, 2) == 0;
    j->has_status = below(j, 4) != 0;
    j->is_eager = below(j, 2) == 0;
    j->is_pickle = below(j, 2) == 0;
    j->ring = 20 + below(j, 200);
    j->broken_group = -1;
    j->now = 1758581237000000000;
    micro = 1 + below(j, 3);
    group_add(j, "default_pg", 0, 1, j->n);
    for (int i = 0; i < j->n; i++) { /* a group is created at its first member */
        if (i % j->tp == 0)
            group_add(j, "TENSOR", i, 1, j->tp);
    }
    for (int d = 0; d < j->dp; d++)
        for (int t = 0; t < j->tp; t++)
            group_add(j, "PIPELINE", d * j->pp * j->tp + t, j->tp, j->pp);
    for (int i = 0; i < j->pp * j->tp; i++)
        group_add(j, "DATA", i, j->pp * j->tp, j->dp);
    for (int i = 0; i < j->n; i++) {
        int of[3] = { 0, 0, 0 };

        for (int g = 1; g < j->n_groups; g++)
            if (position(j, g, i) >= 0)
                of[j->desc[g][0] == 'T' ? 0 : j->desc[g][0] == 'P' ? 1 : 2] = g;
        program(j, i, of[0], of[1], of[2], micro);
    }
}

static void
set_fault(job *j)
{
    int first = below(j, j->n), steps = 2 + below(j, 3),
        n = j->fault == HOST_STUCK || j->fault == DEVICE_LOST ? 1 + below(j, 2) : 1;

    for (int i = 0; i < RANKS; i++)
        j->at[i] = OPS;
    if (j->fault == HEALTHY)
        return;
    if (j->fault == LINK) {
        j->broken_group = below(j, j->n_groups);
        j->at[0] = steps * j->rank[0].n_step;
        return;
    }
    if (j->n < 6)
        n = 1;
    for (int k = 0; k < n; k++) {
        int rank = (first + k * (1 + below(j, j->n - 1))) % j->n;

        j->is_culprit[rank] = true;
        j->at[rank] = steps * j->rank[rank].n_step + below(j, j->rank[rank].n_step);
        j->extra[rank] = 1 + below(j, 10);
    }
}

/* ---- The simulation ---- */

/* Simulates the host of a rank, which enqueues its next operation. Returns false if it cannot. */
static bool
enqueue(job *j, int rank)
{
    rank_state *s = &j->rank[rank];
    const op *what = &s->step[s->next % s->n_step];
    bool hit = j->is_culprit[rank] && s->next >= j->at[rank];
    entry *e = &s->ops[s->h];

    if (s->next == STEPS * s->n_step || s->h - s->d >= j->ahead ||
        (s->next % s->n_step == 0 && s->d < s->h))
        return false;
    if (hit && (j->fault == HOST_STUCK || j->fault == DEAD))
        return false;
    if (hit && j->fault == SKIPS && !what->is_send && !what->is_recv) {
        j->at[rank] = OPS;
        s->next++;
        return true;
    }
    *e = (entry){ .group = what->group, .what = what, .size = what->size, .created = ++j->now };
    if (hit && j->fault == OTHER_SIZE && !what->is_send && !what->is_recv &&
        strcmp(what->name, "all_to_all") != 0 && strcmp(what->name, "broadcast") != 0) {
        j->at[rank] = OPS;
        e->size += 7;
    }
    if (what->is_send || what->is_recv) {
        int peer = j->members[what->group][what->peer];

        e->message = what->is_send ? ++s->sends[peer] : ++s->recvs[peer];
        e->seq = ++s->p2p_seq[what->group];
    } else {
        e->seq = ++s->group_seq[what->group];
    }
    s->next++;
    s->h++;
    return true;
}

static bool
is_done(const job *j, int rank, const entry *e)
{
    int peer = e->what->is_send || e->what->is_recv ? j->members[e->group][e->what->peer] : 0;

    if (e->group == j->broken_group && e->seq > 5)
        return false;
    if (e->what->is_send)
        return e->arrived && (j->is_eager || j->received[rank][peer] >= e->message);
    if (e->what->is_recv)
        return e->arrived && j->sent[peer][rank] >= e->message;
    if (j->differs[e->group][e->seq])
        return false;
    if (e->what->is_root_first)
        return e->arrived && j->root[e->group][e->seq];
    return j->arrived[e->group][e->seq] == j->size[e->group];
}

static void
arrive(job *j, int rank, entry *e)
{
    int peer = e->what->is_send || e->what->is_recv ? j->members[e->group][e->what->peer] : 0;

    e->arrived = true;
    if (e->what->is_send)
        j->sent[rank][peer]++;
    else if (e->what->is_recv)
        j->received[peer][rank]++;
    else {
        for (int i = 0; i < j->size[e->group]; i++) {
            const rank_state *s = &j->rank[j->members[e->group][i]];

            for (int k = 0; k < s->h; k++)
                if (s->ops[k].arrived && s->ops[k].group == e->group && s->ops[k].seq == e->seq &&
                    !s->ops[k].what->is_send && !s->ops[k].what->is_recv &&
                    (s->ops[k].size != e->size || strcmp(s->ops[k].what->name, e->what->name) != 0))
                    j->differs[e->group][e->seq] = true;
        }
        j->arrived[e->group][e->seq]++;
        j->root[e->group][e->seq] |= position(j, e->group, rank) == 0;
    }
}

/* Simulates the device of a rank, which works on its next operation. Returns false if nothing
 * changes. */
static bool
work(job *j, int rank)
{
    rank_state *s = &j->rank[rank];
    entry *e = &s->ops[s->d];
    bool hit = j->is_culprit[rank] && s->d >= j->at[rank], was = e->arrived;

    if (s->d == s->h)
        return false;
    if (hit && (j->fault == DEVICE_STUCK ||
                (j->fault == DEVICE_LOST && s->d >= j->at[rank] + j->extra[rank])))
        return false;
    if (!e->arrived)
        arrive(j, rank, e);
    if (!e->what->is_send && !is_done(j, rank, e))
        return !was;
    if (!e->what->is_send)
        e->completed = ++j->now;
    s->d++;
    return true;
}

/* Returns true if a dump states that operation i of the rank is completed. */
static bool
shows_done(const job *j, int rank, int i)
{
    const entry *e = &j->rank[rank].ops[i];

    if (j->is_culprit[rank] && j->fault == DEVICE_LOST && i >= j->at[rank])
        return false;
    return e->what->is_send ? is_done(j, rank, e) : i < j->rank[rank].d;
}

/* ---- Dumps ---- */

static void
put_entry(const job *j, int rank, int i, int local, bool first, mrd_buf *to)
{
    const entry *e = &j->rank[rank].ops[i];
    bool done = shows_done(j, rank, i), p2p = e->what->is_send || e->what->is_recv;
    int self = position(j, e->group, rank);

    mrd_buf_fmt(to, "%s{\"record_id\":%d,\"pg_id\":%d,\"process_group\":[\"%d\",\"%s\"],",
                first ? "" : ",", i, local, e->group, j->desc[e->group]);
    mrd_buf_fmt(to, "\"collective_seq_id\":%d,\"p2p_seq_id\":%d,\"op_id\":%d,\"is_p2p\":%s,",
                p2p ? 3 : e->seq, p2p ? e->seq : 0, i, p2p ? "true" : "false");
    if (p2p)
        mrd_buf_fmt(to, "\"profiling_name\":\"nccl:%s %d%s%d\",", e->what->name, self,
                    e->what->is_send ? "->" : "<-", e->what->peer);
    else
        mrd_buf_fmt(to, "\"profiling_name\":\"nccl:%s\",", e->what->name);
    mrd_buf_fmt(to,
                "\"time_created_ns\":%" PRId64 ",\"input_sizes\":[[%d,2]],\"input_dtypes\":"
                "[\"Float\"],\"state\":\"%s\",\"time_discovered_completed_ns\":%" PRId64 "}",
                e->created, e->size, done ? "completed" : "scheduled", done ? e->completed : 0);
}

static void
dump_write(job *j, int rank)
{
    const rank_state *s = &j->rank[rank];
    int local[GROUPS], next = 0, last[GROUPS], done[GROUPS];
    bool first = true;
    mrd_buf text = { 0 };

    for (int g = 0; g < j->n_groups; g++) {
        local[g] = position(j, g, rank) >= 0 ? next++ : -1;
        last[g] = done[g] = -1;
    }
    mrd_buf_text(&text, "{\"entries\":[");
    for (int i = 0; i < s->h; i++) {
        const entry *e = &s->ops[i];
        bool is_done = shows_done(j, rank, i);

        last[e->group] = e->seq;
        if (is_done)
            done[e->group] = e->seq;
        if ((j->only_active && is_done) || i + j->ring < s->h)
            continue;
        put_entry(j, rank, i, local[e->group], first, &text);
        first = false;
    }
    mrd_buf_text(&text, "],\"pg_config\":{");
    for (int g = 0; g < j->n_groups; g++) {
        if (local[g] < 0)
            continue;
        mrd_buf_fmt(&text, "%s\"%d\":{\"name\":\"%d\",\"desc\":\"%s\",\"ranks\":\"[",
                    g == 0 ? "" : ",", g, g, j->desc[g]);
        for (int i = 0; i < j->size[g]; i++)
            mrd_buf_fmt(&text, "%s%d", i == 0 ? "" : ", ", j->members[g][i]);
        mrd_buf_text(&text, "]\"}");
    }
    mrd_buf_text(&text, "},\"pg_status\":{");
    for (int g = 0; g < j->n_groups && j->has_status; g++)
        if (local[g] >= 0)
            mrd_buf_fmt(&text,
                        "%s\"%d\":{\"last_enqueued_collective\":%d,\"last_started_collective\":-1,"
                        "\"last_completed_collective\":\"%d\"}",
                        g == 0 ? "" : ",", local[g], last[g], done[g]);
    mrd_buf_text(&text, "},\"version\":\"2.9\"}");
    if (j->is_pickle)
        pickle_make(mrd_buf_cstr(&text), 2 + (unsigned) below(j, 4), &j->dump[rank]);
    else
        mrd_buf_add(&j->dump[rank], text.p, text.len);
    mrd_buf_fini(&text);
}

/* Runs the job until nothing changes, or until all dumps of a healthy job are written. */
static void
job_run(job *j)
{
    int due[RANKS] = { 0 };
    bool changed = true;

    for (int i = 0; i < j->n; i++)
        due[i] = j->fault == HEALTHY ? 100 + below(j, 200) : 1 << 30;
    for (int turn = 0; changed; turn++) {
        changed = false;
        for (int i = 0; i < 2 * j->n; i++) {
            int rank = below(j, j->n);

            changed = enqueue(j, rank) || changed;
            changed = work(j, rank) || changed;
        }
        for (int i = 0; i < j->n && !changed; i++) {
            while (enqueue(j, i))
                changed = true;
            changed = work(j, i) || changed;
        }
        for (int i = 0; i < j->n; i++)
            if (due[i] == turn)
                dump_write(j, i);
    }
    for (int i = 0; i < j->n; i++)
        if (j->dump[i].len == 0 && !(j->fault == DEAD && j->is_culprit[i]))
            dump_write(j, i);
}

/* ---- The judgement ---- */

static mrd_stuck *
judge(collected *c)
{
    mrd_stuck *stuck = mrd_stuck_new(c->cat);

    for (size_t i = 0; i < c->n; i++)
        CHECK_ERR("add", mrd_stuck_add(stuck, &c->v[i]->ev), MRD_OK);
    CHECK_ERR("finish", mrd_stuck_finish(stuck), MRD_OK);
    return stuck;
}

static void
read_dump(collected *c, const void *data, size_t len, int rank)
{
    mrd_in *in = NULL;
    char name[40];

    snprintf(name, sizeof(name), "nccl_trace_rank_%d", rank);
    REQUIRE(mrd_in_memory((mrd_bytes){ data, len }, name, &in, NULL) == MRD_OK);
    collect_in(c, &mrd_import_flight, in, NULL);
    mrd_in_close(in);
}

static void
read_whole(collected *c, const void *data, size_t len, int rank)
{
    read_dump(c, data, len, rank);
    CHECK_ERR("run", c->err, MRD_OK);
}

typedef struct {
    unsigned jobs, exact, some, nobody, wrong;
} score;

static void
job_score(job *j, uint64_t seed, score *to)
{
    collected c = { 0 };
    const mrd_stuck_verdict *v;
    mrd_stuck *stuck;
    size_t right = 0, culprits = 0;

    for (int i = 0; i < j->n; i++)
        if (j->dump[i].len > 0)
            read_whole(&c, j->dump[i].p, j->dump[i].len, i);
    stuck = judge(&c);
    v = mrd_stuck_verdict_of(stuck);
    for (int i = 0; i < j->n; i++)
        culprits += j->is_culprit[i];
    for (size_t i = 0; i < v->n; i++)
        right += j->is_culprit[v->ranks[i].rank];
    to->jobs++;
    if (right < v->n) {
        fprintf(stderr, "%s, seed %" PRIu64 ": names rank %" PRId64 " (%s), %d x %d x %d\n",
                fault_names[j->fault], seed, v->ranks[0].rank, mrd_stuck_class_text(v->cls), j->tp,
                j->pp, j->dp);
        to->wrong++;
    } else if (v->n == 0) {
        to->nobody++;
        CHECK(v->cls < MRD_STUCK_UNSEEN && (v->open == 0 || v->reason[0] != '\0'));
    } else {
        to->exact += right == culprits;
        to->some += right < culprits;
        CHECK(v->reason[0] == '\0');
    }
    mrd_stuck_free(stuck);
    collect_free(&c);
}

TEST(only_culprits_are_named)
{
    /* smallest percentage of jobs in which the verdict must name exactly the ranks with the
     * fault */
    static const unsigned least[FAULTS] = {
        [HOST_STUCK] = 50, [DEVICE_LOST] = 50, [SKIPS] = 10, [OTHER_SIZE] = 25, [DEAD] = 60
    };
    static job j;
    uint64_t from = test_seed() * 1000;

    for (int kind = 0; kind < FAULTS; kind++) {
        score s = { 0 };

        for (uint64_t seed = from; seed < from + 60; seed++) {
            job_make(&j, seed * FAULTS + (uint64_t) kind, (fault) kind);
            set_fault(&j);
            job_run(&j);
            job_score(&j, seed, &s);
            for (int i = 0; i < j.n; i++)
                mrd_buf_fini(&j.dump[i]);
        }
        fprintf(stderr, "%-13s %u jobs: exact %u, some %u, nobody %u, wrong %u\n",
                fault_names[kind], s.jobs, s.exact, s.some, s.nobody, s.wrong);
        /* A dump does not state when it was written, so dumps of a running job may look exactly
         * like a hang. Here this happens in about 1 of 100 jobs, because all dumps of a job are
         * written within a few steps. */
        CHECK(s.wrong <= (kind == HEALTHY ? 3 : 0));
        CHECK(s.exact * 100 >= least[kind] * s.jobs);
    }
}

/* ---- Dumps written by hand, for cases that the simulated jobs do not have ---- */

#define CONFIG                                                                                     \
    "\"pg_config\":{\"0\":{\"name\":\"0\",\"desc\":\"default_pg\",\"ranks\":\"[0, 1, 2]\"}},"      \
    "\"pg_status\":{\"0\":{\"last_enqueued_collective\":%d,\"last_completed_collective\":%d}}}"

/* Adds the dump of one of three ranks. `open` is the number of the all-reduce that has not
 * completed (0 for none), and `entered` the number of the last one that the rank entered. */
static void
add_rank(collected *c, int rank, int open, int entered, const char *elements)
{
    mrd_buf text = { 0 };

    mrd_buf_text(&text, "{\"entries\":[");
    if (open > 0)
        mrd_buf_fmt(
            &text,
            "{\"pg_id\":0,\"process_group\":[\"0\",\"default_pg\"],\"collective_seq_id\":%d,"
            "\"profiling_name\":\"nccl:all_reduce\",\"time_created_ns\":1758581237526848193,"
            "\"input_sizes\":[[%s]],\"state\":\"started\"}",
            open, elements);
    mrd_buf_fmt(&text, "]," CONFIG, entered, open > 0 ? open - 1 : entered);
    read_whole(c, text.p, text.len, rank);
    mrd_buf_fini(&text);
}

TEST(verdicts_of_three_ranks)
{
    static const struct {
        const char *name;
        int open[3], entered[3]; /* -1 in `entered`: no dump */
        const char *elements[3];
        mrd_stuck_class cls;
        int64_t rank; /* the named rank; -1 for none */
    } rows[] = {
        { "nothing is open", { 0, 0, 0 }, { 7, 7, 7 }, { "1", "1", "1" }, MRD_STUCK_NOTHING, -1 },
        { "one did not enter",
          { 8, 0, 8 },
          { 8, 7, 8 },
          { "1", "1", "1" },
          MRD_STUCK_NOT_ENTERED,
          1 },
        { "never entered", { 1, 1, 0 }, { 1, 1, -2 }, { "1", "1", "1" }, MRD_STUCK_NOT_ENTERED, 2 },
        { "one does not leave", { 9, 8, 9 }, { 9, 8, 9 }, { "1", "1", "1" }, MRD_STUCK_INSIDE, 1 },
        { "all are in it", { 8, 8, 8 }, { 8, 8, 8 }, { "1", "1", "1" }, MRD_STUCK_CANNOT_TELL, -1 },
        { "another size", { 8, 8, 8 }, { 8, 8, 8 }, { "5", "5", "6" }, MRD_STUCK_OTHER, 2 },
        { "three sizes", { 8, 8, 8 }, { 8, 8, 8 }, { "5", "7", "6" }, MRD_STUCK_CANNOT_TELL, -1 },
        { "one left no dump", { 8, 8, 0 }, { 8, 8, -1 }, { "1", "1", "1" }, MRD_STUCK_UNSEEN, 2 },
        { "two did not enter",
          { 8, 0, 0 },
          { 8, 7, 7 },
          { "1", "1", "1" },
          MRD_STUCK_CANNOT_TELL,
          -1 },
        { "far behind", { 80, 0, 80 }, { 80, 7, 80 }, { "1", "1", "1" }, MRD_STUCK_RUNNING, -1 },
        { "only one is open",
          { 0, 8, 0 },
          { 8, 8, 8 },
          { "1", "1", "1" },
          MRD_STUCK_CANNOT_TELL,
          -1 },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        collected c = { 0 };
        mrd_stuck *stuck;
        const mrd_stuck_verdict *v;

        for (int rank = 0; rank < 3; rank++)
            if (rows[i].entered[rank] != -1)
                add_rank(&c, rank, rows[i].open[rank],
                         rows[i].entered[rank] == -2 ? -1 : rows[i].entered[rank],
                         rows[i].elements[rank]);
        stuck = judge(&c);
        v = mrd_stuck_verdict_of(stuck);
        CHECK_ROW(rows[i].name, v->cls == rows[i].cls);
        CHECK_ROW(rows[i].name,
                  v->n == (rows[i].rank >= 0) && (v->n == 0 || v->ranks[0].rank == rows[i].rank));
        CHECK_ROW(rows[i].name, v->n_missing == (rows[i].cls == MRD_STUCK_UNSEEN));
        mrd_stuck_free(stuck);
        collect_free(&c);
    }
}

/* Rank 1 waits like the others, but its dump is cut before the entry of the operation in which it
 * waits. The missing entry must not count as evidence against rank 1. */
TEST(what_a_damaged_dump_lacks_is_no_evidence)
{
#define ENTRY "{\"pg_id\":0,\"process_group\":[\"0\",\"default_pg\"],\"collective_seq_id\":"
    static const char cut[] =
        "{\"pg_config\":{\"0\":{\"name\":\"0\",\"desc\":\"default_pg\",\"ranks\":\"[0, 1, 2]\"}},"
        "\"entries\":[" ENTRY "7,\"profiling_name\":\"nccl:all_reduce\","
        "\"time_created_ns\":1758581237526848193,\"time_discovered_completed_ns\":"
        "1758581237526849193,\"input_sizes\":[[1]],\"state\":\"completed\"}," ENTRY "8,\"pro";
    collected c = { 0 };
    mrd_stuck *stuck;

    add_rank(&c, 0, 8, 8, "1");
    add_rank(&c, 2, 8, 8, "1");
    read_dump(&c, cut, sizeof(cut) - 1, 1);
    CHECK(c.err != MRD_OK);
    stuck = judge(&c);
    CHECK_INT(mrd_stuck_verdict_of(stuck)->cls, MRD_STUCK_CANNOT_TELL);
    CHECK_INT(mrd_stuck_verdict_of(stuck)->n, 0);
    mrd_stuck_free(stuck);
    collect_free(&c);
}

TEST(two_dumps_of_one_rank_name_nobody)
{
    collected c = { 0 };
    mrd_stuck *stuck;

    add_rank(&c, 0, 8, 8, "1");
    add_rank(&c, 1, 0, 7, "1");
    add_rank(&c, 1, 8, 8, "1");
    stuck = judge(&c);
    CHECK_INT(mrd_stuck_verdict_of(stuck)->cls, MRD_STUCK_CANNOT_TELL);
    mrd_stuck_free(stuck);
    collect_free(&c);
}

TEST_MAIN()
