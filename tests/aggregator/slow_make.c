#include "tests/aggregator/slow_make.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WRITE, TRAIN, GATHER, LOAD, OPS };

static uint64_t
next(job *j)
{
    j->random ^= j->random << 13;
    j->random ^= j->random >> 7;
    j->random ^= j->random << 17;
    return j->random;
}

double
uniform(job *j)
{
    return (double) (next(j) >> 11) / (double) (1ull << 53);
}

double
normal(job *j)
{
    double sum = -6;

    for (unsigned i = 0; i < 12; i++)
        sum += uniform(j);
    return sum;
}

unsigned
seeds_of(unsigned usual)
{
    const char *text = getenv("MRD_SLOW_SEEDS");

    return text == NULL ? usual : (unsigned) strtoul(text, NULL, 10);
}

static void
name_op(mrd_slow_op *op, const char *name, uint64_t group)
{
    snprintf(op->name, sizeof(op->name), "%s", name);
    op->group = group;
}

static void
init_rank(job *j, unsigned i)
{
    made_rank *r = &j->r[i];
    double step = (double) j->step;

    r->now = (mrd_slow_reading){ .pid = 1000 + i,
                                 .start_ticks = 5,
                                 .rank = i,
                                 .world = j->ranks,
                                 .state = MRD_HANG_RUNNING,
                                 .n_ops = OPS,
                                 .lead = TRAIN,
                                 .device = j->traced ? 0 : -1,
                                 .bound = MRD_MS };
    name_op(&r->now.ops[WRITE], "nrt_tensor_write", 0);
    name_op(&r->now.ops[TRAIN], "nrt_execute", j->kind == STAGES ? 40 + i % 4 : 40);
    name_op(&r->now.ops[GATHER], "nrt_all_gather", j->ranks);
    name_op(&r->now.ops[LOAD], "nrt_load", 0);
    r->now.ops[LOAD].entered = 2;
    /* machines are never quite the same */
    r->host = step * 0.10 * (1 + 0.01 * normal(j));
    r->copy = step * 0.02 * (1 + 0.01 * normal(j));
    r->device = step * 0.65 * (1 + 0.001 * normal(j));
    if (j->kind == STAGES) {
        r->host *= 1 + 0.1 * (i % 4);
        r->device *= 1 - 0.05 * (i % 4);
    }
    if (j->kind == FAST_HOST && (int) i == j->culprit)
        r->host *= 0.4;
    if (j->kind == MOVED && (int) i == j->culprit) {
        r->host -= 0.05 * step;
        r->copy += 0.05 * step;
    }
    if (j->kind == REPLICA_SLOW && (int) i == j->culprit)
        r->host += 0.1 * step;
    if (j->kind == REPLICA_DEVICE && (int) i == j->culprit)
        r->device += 0.1 * step;
    if (j->kind == HALF_SPEEDS && i % 2 == 0)
        r->host *= 1.6;
    if (j->kind == REPLICAS) {
        r->host *= 1 + 0.3 * uniform(j);
        r->device *= 1 + 0.02 * normal(j);
    }
    if (j->kind == TWO_SPEEDS && i % 10 < 3)
        r->host *= 1.6;
    r->newest = r->before = r->now;
    r->left_collective = MRD_SEC;
    r->begin = MRD_SEC;
}

void
job_init(job *j, unsigned ranks, unsigned seed, fault kind)
{
    memset(j, 0, sizeof(*j));
    j->slow = mrd_slow_new();
    j->ranks = ranks;
    j->kind = kind;
    j->traced = kind != EXECUTION && kind != FAST_HOST;
    j->separate = kind == EXECUTION;
    j->apart = kind == REPLICAS || kind == REPLICA_SLOW || kind == REPLICA_DEVICE;
    j->random = 0x9e3779b97f4a7c15u * (seed + 1);
    for (unsigned i = 0; i < 8; i++)
        (void) next(j);
    j->nodes = (ranks + PER_NODE - 1) / PER_NODE;
    if (ranks <= PER_NODE && ranks >= 2)
        j->nodes = 2;
    j->r = calloc(ranks, sizeof(*j->r));
    j->next_report = calloc(j->nodes, sizeof(*j->next_report));
    /* from 25 ms to 400 ms */
    j->step = (int64_t) (25e6 * pow(16, uniform(j)));
    j->noise = 0.01 + 0.02 * uniform(j);
    j->culprit = (int) (uniform(j) * ranks);
    j->now = MRD_SEC;
    j->tick = 2 * MRD_SEC;
    for (unsigned i = 0; i < ranks; i++)
        init_rank(j, i);
    for (unsigned i = 0; i < j->nodes; i++)
        j->next_report[i] = MRD_SEC + (int64_t) (uniform(j) * 1e9);
}

void
job_fini(job *j)
{
    mrd_slow_free(j->slow);
    free(j->r);
    free(j->next_report);
}

/* ---- Steps ---- */

/* Returns the injected delay of the rank in this step, in ns. */
static double
delay_of(const job *j, unsigned i, int64_t at)
{
    double full = j->size * (double) j->step;

    if (at < j->onset || (j->end != 0 && at >= j->end))
        return 0;
    if (j->kind == TWO_SLOW && i == ((unsigned) j->culprit + 1) % j->ranks)
        return full / 2;
    if ((int) i != j->culprit)
        return 0;
    if (j->kind == RAMP) {
        double seconds = (double) (at - j->onset) / 1e9;

        return seconds < 60 ? full * seconds / 60 : full;
    }
    return full;
}

/* Returns true if a time that `every` and `phase` describe lies in the step that ends now. */
static bool
comes_now(const job *j, int64_t every, int64_t phase)
{
    return (j->now - phase) / every != (j->now - j->step - phase) / every;
}

/* Returns the noise of the host in one step, in ns. */
static double
noise_of(job *j, unsigned i)
{
    double step = (double) j->step;

    switch (j->kind) {
    case NODE_NOISE:
        if (i % PER_NODE == 0)
            j->shared = step * 0.05 * exp(normal(j));
        return j->shared;
    case BIMODAL_APART:
        return uniform(j) < 0.5 ? step * 0.2 : 0;
    case WANDERS: {
        double keep = 1 - step / 10e9; /* the noise lasts for about 10 s */

        j->r[i].wander = keep * j->r[i].wander + 0.02 * sqrt(1 - keep * keep) * normal(j);
        return step * (0.1 + j->r[i].wander);
    }
    case LONG_PAUSE:
        return i == 0 && comes_now(j, 1000 * MRD_SEC, 100 * MRD_SEC) ? 40e9 : 0;
    case PAUSES:
        return i == 0 && comes_now(j, 15 * MRD_SEC, 0) ? 3e9 : 0;
    case WILD:
        return uniform(j) < 0.001 ? fmin(step * pow(1 - uniform(j), -1 / 0.8), 20e9) : 0;
    case LOGNORMAL:
        return step * 0.05 * exp(normal(j));
    case PARETO: /* 1 of 200 steps has a stall of at least half a step */
        return uniform(j) < 0.005 ? step * 0.5 * pow(1 - uniform(j), -1 / 1.5) : 0;
    case ROTATES:
        return j->steps % j->ranks == i ? step * 0.3 : 0;
    case ROTATES_SLOWLY:
        return (uint64_t) (j->now / (3 * MRD_SEC)) * 7 % j->ranks == i ? step * 0.1 : 0;
    case CHECKPOINT: /* every 30 s, for 4 s */
        return i == 0 && comes_now(j, 30 * MRD_SEC, 0) ? 4e9 : 0;
    default:
        return 0;
    }
}

/* Makes the rank begin its next execution. Returns when its device has done its own work. */
static int64_t
begin_step(job *j, unsigned i)
{
    made_rank *r = &j->r[i];
    mrd_slow_reading *now = &r->now;
    double delay = delay_of(j, i, r->left_collective), noise = j->noise * (double) j->step;
    double host = r->host + 0.3 * fabs(noise * normal(j)) + noise_of(j, i);
    double copy = r->copy, device = r->device + noise * normal(j);
    double wait = 0.01 * r->host;

    if (j->kind == LONGER && r->left_collective > 100 * MRD_SEC)
        device *= 1.3;
    if (j->kind == BIMODAL && j->steps / 20 % 2 == 0)
        device *= 2;
    if (j->kind == EVALUATES && j->steps % 400 > 360)
        device *= 0.6;
    switch (j->kind) {
    case DEVICE:
    case EXECUTION:
        device += delay;
        break;
    case RUNTIME:
        copy += delay;
        break;
    case STARVED:
        wait += 0.95 * delay;
        host += delay;
        break;
    default:
        host += delay;
        break;
    }
    r->before = r->newest;
    now->outside += (int64_t) host;
    now->cpu_wait += (int64_t) wait;
    now->on_cpu += (int64_t) host;
    now->ops[WRITE].entered++;
    now->ops[WRITE].inside += (int64_t) copy;
    r->begin = now->at.ns = r->left_collective + (int64_t) host + (int64_t) copy;
    r->entered[TRAIN]++;
    now->ops[TRAIN].entered = r->entered[TRAIN];
    if (now->device >= 0 && r->entered[TRAIN] > 1) {
        now->executions++;
    }
    /* the agent converts ticks with an estimated rate, so times vary by some ns */
    now->ops[LOAD].inside = 27 * MRD_MS + (int64_t) (uniform(j) * 40);
    now->lost = r->lost;
    r->newest = *now;
    return r->begin + (int64_t) device;
}

/* The device's work of a step counts from the next begin on. */
static void
end_step(job *j, made_rank *r, int64_t device_end, int64_t end)
{
    mrd_slow_reading *now = &r->now;
    int64_t execution = end;

    if (j->separate) {
        execution = device_end;
        now->ops[GATHER].entered++;
        now->ops[GATHER].inside += end - execution;
    }
    if (j->traced) {
        now->device += device_end - r->begin;
    }
    now->ops[TRAIN].inside += execution - r->begin;
    r->left_collective = end;
}

/* ---- Reports ---- */

/* Makes a reading wrong in one of several ways. */
static void
lie(job *j, unsigned how, mrd_slow_reading *reading)
{
    switch (how) {
    case 1: /* any time outside */
        reading->outside = (int64_t) (uniform(j) * (double) reading->at.ns);
        break;
    case 2: /* counts that go backwards */
        reading->ops[TRAIN].entered = 1000000 - reading->ops[TRAIN].entered;
        break;
    case 3: /* more device time than there is */
        reading->device *= 100;
        break;
    default: /* ten times the steps, all of them outside */
        reading->ops[TRAIN].entered *= 10;
        reading->outside = reading->at.ns;
        break;
    }
}

static bool
is_present(const job *j, unsigned i, int64_t now)
{
    if (j->r[i].left)
        return false;
    return j->kind != MOVES || (i + (unsigned) (now / (20 * MRD_SEC))) % 8 != 0;
}

static void
report_node(job *j, unsigned node, int64_t at)
{
    mrd_jobid id = { "" };
    char name[32];
    unsigned per = (j->ranks + j->nodes - 1) / j->nodes;

    snprintf(name, sizeof(name), "i-node%u", node);
    mrd_jobid_set(&id, mrd_str_of("job"), mrd_str_of("train"));
    mrd_slow_node_begin(j->slow, node + 1, name, (mrd_local_ns){ at });
    j->clock[node] = (int64_t) ((j->kind == CLOCKS ? 5e6 : 2e5) * normal(j));
    for (unsigned i = node * per; i < (node + 1) * per && i < j->ranks; i++) {
        const made_rank *r = &j->r[i];
        mrd_slow_reading reading = r->newest.at.ns <= at ? r->newest : r->before;

        if (!is_present(j, i, at))
            continue;
        if (reading.ops[TRAIN].entered == 0)
            reading.at.ns = 0;
        else
            reading.at.ns += j->clock[node];
        if (r->lies != 0)
            lie(j, r->lies, &reading);
        mrd_slow_report(j->slow, node + 1, &id, 7, true, &reading);
    }
}

static void
take_verdicts(job *j)
{
    const mrd_slow_verdict *v;

    for (size_t i = 0; (v = mrd_slow_changed(j->slow, i)) != NULL; i++) {
        if (v->withdrawn.ns != 0) {
            j->withdrawn++;
            continue;
        }
        if (j->given++ == 0)
            j->first = *v;
        j->wrong += v->named[0].rank != j->culprit || v->given.ns < j->onset;
    }
}

static void
report_until(job *j, int64_t until)
{
    for (unsigned i = 0; i < j->nodes; i++)
        for (; j->next_report[i] <= until;
             j->next_report[i] += 2 * MRD_SEC + (int64_t) (uniform(j) * 2e8))
            report_node(j, i, j->next_report[i]);
    for (; j->tick <= until; j->tick += MRD_SEC) {
        mrd_slow_step(j->slow, (mrd_local_ns){ j->tick });
        take_verdicts(j);
    }
}

/* Ranks that wait for one another leave the collective together. */
static void
step_together(job *j)
{
    static int64_t device_end[JOB_RANKS];
    int64_t last = 0;

    for (unsigned i = 0; i < j->ranks; i++) {
        device_end[i] = begin_step(j, i);
        last = device_end[i] > last ? device_end[i] : last;
    }
    /* An agent that reports now sees the executions that began. */
    last += (int64_t) (0.2 * (double) j->step);
    report_until(j, last);
    for (unsigned i = 0; i < j->ranks; i++)
        end_step(j, &j->r[i], device_end[i], last + (int64_t) (uniform(j) * 20e3));
    j->now = last;
    j->steps++;
}

static void
step_apart(job *j, int64_t until)
{
    for (unsigned i = 0; i < j->ranks; i++)
        while (j->r[i].begin <= until) {
            int64_t done;

            if (j->r[i].entered[TRAIN] > 0) {
                done = j->r[i].begin + (int64_t) (j->r[i].device * (1 + j->noise * normal(j)));
                end_step(j, &j->r[i], done, done + (int64_t) (0.2 * (double) j->step));
            }
            (void) begin_step(j, i);
        }
    j->now = until;
}

void
job_run(job *j, int64_t until)
{
    while (j->now < until) {
        if (j->apart) {
            step_apart(j, j->now + 100 * MRD_MS);
            report_until(j, j->now);
        } else {
            step_together(j);
        }
    }
}
