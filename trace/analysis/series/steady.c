#include "trace/analysis/series/steady.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A worker's waits have to change by this share of the larger level. */
#define SINCE_EFFECT 0.5

struct mrd_steady {
    size_t workers;
    /* time that the others waited for a worker, indexed by worker * MRD_STEADY_BLOCKS + block */
    uint64_t *ns;
    mrd_onset *onset;
    uint64_t n, width; /* number of collectives in all, and number per block */
};

mrd_steady *
mrd_steady_new(size_t workers)
{
    mrd_steady *steady = calloc(1, sizeof(*steady));

    if (steady == NULL)
        return NULL;
    steady->workers = workers;
    steady->width = 1;
    if ((steady->ns = calloc(workers + 1, MRD_STEADY_BLOCKS * sizeof(*steady->ns))) == NULL ||
        (steady->onset = mrd_onset_new()) == NULL) {
        mrd_steady_free(steady);
        return NULL;
    }
    return steady;
}

void
mrd_steady_free(mrd_steady *steady)
{
    if (steady == NULL)
        return;
    mrd_onset_free(steady->onset);
    free(steady->ns);
    free(steady);
}

/* Joins neighbouring blocks in pairs, so that each block covers twice as many collectives. */
static void
widen(mrd_steady *steady)
{
    for (size_t w = 0; w < steady->workers; w++) {
        uint64_t *ns = &steady->ns[w * MRD_STEADY_BLOCKS];

        for (size_t b = 0; b < MRD_STEADY_BLOCKS / 2; b++)
            ns[b] = ns[2 * b] + ns[2 * b + 1];
        memset(&ns[MRD_STEADY_BLOCKS / 2], 0, MRD_STEADY_BLOCKS / 2 * sizeof(*ns));
    }
    steady->width *= 2;
}

void
mrd_steady_add(mrd_steady *steady, mrd_ev_ns at, uint32_t worker, uint64_t ns)
{
    mrd_onset_add(steady->onset, at, worker, ns);
    if (steady->n == steady->width * MRD_STEADY_BLOCKS)
        widen(steady);
    steady->ns[worker * MRD_STEADY_BLOCKS + steady->n++ / steady->width] += ns;
}

/* Returns the logarithm of Chernoff's bound for one value of its parameter `rate`. It bounds the
 * following probability. If a random worker is picked in each block, the sum of the picked workers'
 * waits is at least the sum of the tested worker's waits. The largest wait of a block is subtracted
 * in the exponent to avoid overflow. */
static double
log_bound(const mrd_steady *steady, uint32_t worker, size_t workers, double rate)
{
    double sum = 0;

    for (size_t b = 0; b < MRD_STEADY_BLOCKS; b++) {
        uint64_t most = 0;
        double all = 0;
        size_t others = workers;

        for (size_t w = 0; w < steady->workers; w++) {
            uint64_t ns = steady->ns[w * MRD_STEADY_BLOCKS + b];

            most = ns > most ? ns : most;
        }
        for (size_t w = 0; w < steady->workers && most > 0; w++) {
            uint64_t ns = steady->ns[w * MRD_STEADY_BLOCKS + b];

            if (ns == 0)
                continue;
            all += exp(rate * ((double) ns - (double) most));
            others--;
        }
        if (most == 0)
            continue;
        all += (double) others * exp(-rate * (double) most);
        sum += log(all / (double) workers) +
               rate * ((double) most - (double) steady->ns[worker * MRD_STEADY_BLOCKS + b]);
    }
    return sum;
}

static double
chance(const mrd_steady *steady, uint32_t worker, size_t workers)
{
    uint64_t most = 0;
    double low = -10, high = 15, p; /* range of log2(rate * largest wait) for the search */

    for (size_t b = 0; b < MRD_STEADY_BLOCKS; b++) {
        uint64_t ns = steady->ns[worker * MRD_STEADY_BLOCKS + b];

        most = ns > most ? ns : most;
    }
    if (most == 0)
        return 1;
    /* the bound has only one minimum, so a ternary search finds it */
    for (unsigned round = 0; round < 40; round++) {
        double third = (high - low) / 3, a = low + third, b = high - third;

        if (log_bound(steady, worker, workers, exp2(a) / (double) most) <
            log_bound(steady, worker, workers, exp2(b) / (double) most))
            high = b;
        else
            low = a;
    }
    p = (double) workers *
        exp(log_bound(steady, worker, workers, exp2((low + high) / 2) / (double) most));
    return p < 1 ? p : 1;
}

static uint64_t
waits_in(const mrd_steady *steady, size_t worker, size_t from, size_t to)
{
    uint64_t ns = 0;

    for (size_t b = from; b < to; b++)
        ns += steady->ns[worker * MRD_STEADY_BLOCKS + b];
    return ns;
}

/* Returns true if the others waited at least `least`, and longer than for any other worker, for
 * this worker in the blocks [from, to). */
static bool
leads_in(const mrd_steady *steady, uint32_t worker, size_t from, size_t to, uint64_t least)
{
    uint64_t ns = waits_in(steady, worker, from, to);
    bool leads = ns > 0 && ns >= least;

    for (size_t w = 0; w < steady->workers && leads; w++)
        leads = w == worker || waits_in(steady, w, from, to) < ns;
    return leads;
}

/* Splits the blocks [from, blocks) into `parts` equal ranges. Returns true if this worker leads in
 * each range. */
static bool
leads_from(const mrd_steady *steady, uint32_t worker, size_t from, size_t blocks, size_t parts)
{
    uint64_t least = waits_in(steady, worker, 0, blocks) / 10;
    bool leads = true;

    for (size_t i = 0; i < parts && leads; i++)
        leads = leads_in(steady, worker, from + (blocks - from) * i / parts,
                         from + (blocks - from) * (i + 1) / parts, least);
    return leads;
}

mrd_steadiness
mrd_steady_of(const mrd_steady *steady, uint32_t worker, size_t workers)
{
    size_t blocks = (size_t) ((steady->n + steady->width - 1) / steady->width);

    return (mrd_steadiness){ .p = chance(steady, worker, workers),
                             .lasts = leads_from(steady, worker, 0, blocks, 4) ||
                                      (steady->n >= MRD_STEADY_BLOCKS &&
                                       leads_from(steady, worker, blocks / 2, blocks, 4)) };
}

mrd_err
mrd_steady_since(const mrd_steady *steady, uint32_t worker, mrd_onset_result *ret)
{
    return mrd_onset_of(steady->onset, worker, SINCE_EFFECT, true, ret);
}
