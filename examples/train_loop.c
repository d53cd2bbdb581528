/*
 * train_loop.c - a data-parallel training loop on the Neuron runtime, without a framework.
 *
 * Each process is one rank with one or more NeuronCores, and each core is a worker with its own
 * thread. A step writes the batch, executes the model (which ends with an all-reduce over all
 * workers) and reads the loss. Every few steps rank 0 writes a checkpoint. The program starts its
 * ranks itself, or is one rank of a launched set (RANK and WORLD_SIZE, or SLURM_PROCID and
 * SLURM_NTASKS).
 *
 * It is compiled against the runtime's binary interface and linked to libnrt only. Annotations are
 * used if libmeridian is in the process (for example preloaded by `meridian inspect`). The model is
 * a simulated NEFF (compiled model file). --neff loads a real one.
 *
 *     LD_LIBRARY_PATH=build/lib/simnrt build/bin/train_loop --ranks 4 --cores 8 --steps 20
 *         --straggler 13:3
 */
#include <dlfcn.h>
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "capture/meridian.h"
#include "capture/nrt/nrt_abi.h"

#define CORES_MAX 128

typedef struct {
    long steps, ranks, cores, rank, exec_us, cc, checkpoint_every, first_core, late_ms;
    long straggler; /* index of the slow worker, -1 for none */
    double factor;
    long late; /* worker that is late in every step, -1 for none */
    const char *checkpoint_dir, *neff;
    bool quiet;
} options;

static options opt = { .steps = 20,
                       .ranks = 1,
                       .cores = 2,
                       .rank = -1,
                       .exec_us = 4000,
                       .cc = 8,
                       .checkpoint_every = 10,
                       .first_core = -1,
                       .straggler = -1,
                       .factor = 3.0,
                       .late = -1,
                       .checkpoint_dir = "." };

/* ---- annotations, if libmeridian is loaded ----
 *
 * A program that is linked to libmeridian just writes MRD_SCOPE(domain, "step"). This program must
 * also run without libmeridian, so it looks up the functions at run time. */

static struct {
    mrd_domain *(*domain_create)(const char *name);
    uint64_t (*span_begin)(const mrd_domain *, const char *, const mrd_kv *, size_t);
    void (*span_end)(uint64_t, const mrd_kv *, size_t);
    mrd_frame *(*frame_create)(const mrd_domain *, const char *);
    int (*frame_start)(mrd_frame *);
    int (*frame_stop)(mrd_frame *);
    mrd_counter *(*counter_create)(const mrd_domain *, const char *, const char *, uint64_t);
    int (*counter_sample)(mrd_counter *, double);
    void (*thread_name)(const char *);
} mrd;
static mrd_domain *domain;
static mrd_frame *frame;
static mrd_counter *loss_counter;

static void
find_annotations(void)
{
    static const struct {
        const char *name;
        void **to;
    } calls[] = {
        { "mrd_domain_create", (void **) &mrd.domain_create },
        { "mrd_span_begin", (void **) &mrd.span_begin },
        { "mrd_span_end", (void **) &mrd.span_end },
        { "mrd_frame_create", (void **) &mrd.frame_create },
        { "mrd_frame_start", (void **) &mrd.frame_start },
        { "mrd_frame_stop", (void **) &mrd.frame_stop },
        { "mrd_counter_create", (void **) &mrd.counter_create },
        { "mrd_counter_sample", (void **) &mrd.counter_sample },
        { "mrd_thread_name", (void **) &mrd.thread_name },
    };

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        if ((*calls[i].to = dlsym(RTLD_DEFAULT, calls[i].name)) == NULL) {
            memset(&mrd, 0, sizeof(mrd));
            return;
        }
    domain = mrd.domain_create("train");
    frame = mrd.frame_create(domain, "step");
    loss_counter = mrd.counter_create(domain, "loss", NULL, 0);
}

static uint64_t
begin(const char *name, long step)
{
    mrd_kv arg = mrd_kv_i64("step", step);

    return mrd.span_begin == NULL ? 0 : mrd.span_begin(domain, name, &arg, 1);
}

static void
end(uint64_t span)
{
    if (span != 0)
        mrd.span_end(span, NULL, 0);
}

/* ---- one worker ---- */

typedef struct {
    int core;        /* index of the core in this process */
    uint32_t global; /* index of the worker in the whole job */
    nrt_model_t *model;
    nrt_tensor_t *batch, *loss;
    nrt_tensor_set_t *in, *out;
    pthread_t thread;
    long done;
    NRT_STATUS status;
    float value;
} worker;

static worker workers[CORES_MAX];

static bool
ok(const char *what, NRT_STATUS status)
{
    if (status != NRT_SUCCESS)
        fprintf(stderr, "train_loop: rank %ld: %s: %s\n", opt.rank, what,
                nrt_get_status_as_str(status));
    return status == NRT_SUCCESS;
}

static bool
read_neff(char **ret_neff, size_t *ret_size)
{
    FILE *f;
    long size;

    if (opt.neff == NULL) {
        if ((*ret_neff = malloc(512)) == NULL)
            return false;
        *ret_size = (size_t) snprintf(*ret_neff, 512,
                                      "SIMNEFF 1\nname=train_step\nexec_us=%ld\ncc=%ld\n"
                                      "input=batch:float32:64x64\noutput=loss:float32:1\n",
                                      opt.exec_us, opt.cc);
        return true;
    }
    if ((f = fopen(opt.neff, "rb")) == NULL || fseek(f, 0, SEEK_END) != 0 ||
        (size = ftell(f)) <= 0 || (*ret_neff = malloc((size_t) size)) == NULL) {
        fprintf(stderr, "train_loop: cannot read '%s'\n", opt.neff);
        if (f != NULL)
            fclose(f);
        return false;
    }
    rewind(f);
    *ret_size = fread(*ret_neff, 1, (size_t) size, f);
    fclose(f);
    return *ret_size == (size_t) size;
}

static bool
worker_open(worker *w, const char *neff, size_t size)
{
    uint32_t count = (uint32_t) (opt.ranks * opt.cores);

    return ok("nrt_build_global_comm", nrt_build_global_comm(w->core, w->global, count)) &&
           ok("nrt_load_collectives",
              nrt_load_collectives(neff, size, w->core, -1, w->global, count, &w->model)) &&
           ok("nrt_tensor_allocate", nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, w->core,
                                                         64 * 64 * 4, "batch", &w->batch)) &&
           ok("nrt_tensor_allocate",
              nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, w->core, 4, "loss", &w->loss)) &&
           ok("nrt_allocate_tensor_set", nrt_allocate_tensor_set(&w->in)) &&
           ok("nrt_allocate_tensor_set", nrt_allocate_tensor_set(&w->out)) &&
           ok("nrt_add_tensor_to_tensor_set",
              nrt_add_tensor_to_tensor_set(w->in, "batch", w->batch)) &&
           ok("nrt_add_tensor_to_tensor_set",
              nrt_add_tensor_to_tensor_set(w->out, "loss", w->loss));
}

static void
worker_close(worker *w)
{
    nrt_destroy_tensor_set(&w->in);
    nrt_destroy_tensor_set(&w->out);
    nrt_tensor_free(&w->batch);
    nrt_tensor_free(&w->loss);
    if (w->model != NULL)
        ok("nrt_unload", nrt_unload(w->model));
}

static NRT_STATUS
worker_step(worker *w, long step)
{
    static float batch[64 * 64];
    struct timespec late = { opt.late_ms / 1000, opt.late_ms % 1000 * 1000000L };
    uint64_t span = begin("load batch", step);
    NRT_STATUS status;

    if (opt.late == (long) w->global)
        nanosleep(&late, NULL); /* simulates slow input, which also makes a worker late */
    status = nrt_tensor_write(w->batch, batch, 0, sizeof(batch));
    end(span);
    if (status != NRT_SUCCESS)
        return status;
    span = begin("forward backward", step);
    status = nrt_execute(w->model, w->in, w->out);
    end(span);
    if (status == NRT_SUCCESS)
        status = nrt_tensor_read(w->loss, &w->value, 0, sizeof(w->value));
    return status;
}

static bool
checkpoint(const worker *w, long step)
{
    char path[4096], bytes[64 * 64 * 4];
    uint64_t span = begin("checkpoint", step);
    FILE *f;
    bool good;

    snprintf(path, sizeof(path), "%s/checkpoint_%06ld.bin", opt.checkpoint_dir, step);
    good = ok("nrt_tensor_read", nrt_tensor_read(w->batch, bytes, 0, sizeof(bytes)));
    if (good && (f = fopen(path, "wb")) != NULL) {
        good = fwrite(bytes, 1, sizeof(bytes), f) == sizeof(bytes);
        good = fclose(f) == 0 && good;
    } else
        good = false;
    if (!good)
        fprintf(stderr, "train_loop: cannot write '%s'\n", path);
    end(span);
    return good;
}

static void *
work(void *arg)
{
    worker *w = arg;
    char name[32];

    snprintf(name, sizeof(name), "worker %u", w->global);
    if (mrd.thread_name != NULL)
        mrd.thread_name(name);
    for (long step = 0; step < opt.steps && w->status == NRT_SUCCESS; step++) {
        bool leads = w->core == 0;

        if (leads && frame != NULL)
            mrd.frame_start(frame);
        if (ok("step", w->status = worker_step(w, step)))
            w->done++;
        if (leads && frame != NULL) {
            mrd.frame_stop(frame);
            /* the simulated device computes nothing, so this is a made-up curve */
            mrd.counter_sample(loss_counter, 2.0 / (1.0 + 0.1 * (double) step) + w->value);
        }
        if (leads && opt.rank == 0 && opt.checkpoint_every > 0 &&
            (step + 1) % opt.checkpoint_every == 0)
            (void) checkpoint(w, step + 1);
    }
    return NULL;
}

/* ---- one rank ---- */

static long
launched(const char *a, const char *b)
{
    const char *text = getenv(a) != NULL ? getenv(a) : getenv(b);

    return text == NULL || *text == '\0' ? -1 : strtol(text, NULL, 10);
}

/* The straggler is a slow core of the simulated runtime, configured before the runtime starts. */
static void
arm_straggler(void)
{
    char fault[128];
    const char *more = getenv("SIMNRT_FAULT");

    if (opt.straggler < 0 || opt.straggler / opt.cores != opt.rank)
        return;
    snprintf(fault, sizeof(fault), "slow_core:core=%ld:factor=%g%s%s", opt.straggler % opt.cores,
             opt.factor, more != NULL && *more != '\0' ? "," : "", more != NULL ? more : "");
    setenv("SIMNRT_FAULT", fault, 1);
}

static void
choose_cores(void)
{
    long local = launched("LOCAL_RANK", "SLURM_LOCALID");
    char list[64];

    if (getenv("NEURON_RT_VISIBLE_CORES") != NULL || getenv("NEURON_RT_NUM_CORES") != NULL)
        return; /* the launcher's setting has priority */
    if (opt.first_core < 0)
        opt.first_core = (local < 0 ? opt.rank : local) * opt.cores;
    snprintf(list, sizeof(list), "%ld-%ld", opt.first_core, opt.first_core + opt.cores - 1);
    setenv("NEURON_RT_VISIBLE_CORES", list, 1);
}

static int
run_workers(void)
{
    long done = 0;
    bool good = true;

    for (long i = 0; i < opt.cores; i++)
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) {
            fprintf(stderr, "train_loop: cannot start a thread\n");
            /* otherwise the workers of the other ranks would wait for this worker in the
             * all-reduce */
            exit(1);
        }
    for (long i = 0; i < opt.cores; i++) {
        pthread_join(workers[i].thread, NULL);
        done += workers[i].done;
        good = good && workers[i].status == NRT_SUCCESS;
    }
    if (!opt.quiet)
        printf("rank %ld: %ld steps on %ld cores%s\n", opt.rank, done / opt.cores, opt.cores,
               good ? "" : ", FAILED");
    return good ? 0 : 1;
}

static int
run_rank(void)
{
    char *neff = NULL;
    size_t size = 0;
    int code = 1;
    bool good;

    arm_straggler();
    choose_cores();
    find_annotations();
    if (!ok("nrt_init", nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "")))
        return 1;
    good = read_neff(&neff, &size);
    for (long i = 0; i < opt.cores && good; i++) {
        workers[i].core = (int) i;
        workers[i].global = (uint32_t) (opt.rank * opt.cores + i);
        good = worker_open(&workers[i], neff, size);
    }
    free(neff);
    if (good)
        code = run_workers();
    for (long i = 0; i < opt.cores; i++)
        worker_close(&workers[i]);
    nrt_close();
    return code;
}

/* ---- the job ---- */

static int
spawn_ranks(void)
{
    int code = 0, status;

    for (long r = 0; r < opt.ranks; r++) {
        pid_t self = getpid(), pid = fork();
        char text[24];

        if (pid < 0) {
            fprintf(stderr, "train_loop: fork: %s\n", strerror(errno));
            return 1;
        }
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGTERM); /* ranks end with their launcher */
            if (getppid() != self)
                _exit(1);
            opt.rank = r;
            /* RANK and WORLD_SIZE are for tools that inspect the process */
            snprintf(text, sizeof(text), "%ld", r);
            setenv("RANK", text, 1);
            snprintf(text, sizeof(text), "%ld", opt.ranks);
            setenv("WORLD_SIZE", text, 1);
            exit(run_rank());
        }
    }
    while (wait(&status) > 0)
        if (status != 0)
            code = 1;
    return code;
}

static const char usage[] =
    "usage: train_loop [options]\n"
    "  --steps N             steps (20)\n"
    "  --ranks N             processes; started here unless --rank or the launcher says which (1)\n"
    "  --rank N              be this rank of a launched set\n"
    "  --cores N             NeuronCores per rank (2)\n"
    "  --first-core N        first core of this rank on its instance (local rank x cores)\n"
    "  --exec-us N           device time of a step in microseconds (4000)\n"
    "  --cc N                collectives per step (8)\n"
    "  --straggler W[:F]     worker W computes F times as long (3); simulated runtime only\n"
    "  --late W:MS           worker W comes MS milliseconds late to each step\n"
    "  --checkpoint-every N  0: never (10)\n"
    "  --checkpoint-dir DIR  (.)\n"
    "  --neff FILE           a model instead of the simulated one\n"
    "  --quiet               no line per rank\n";

/* Returns what is wrong with the combination of options, NULL if nothing. */
static const char *
impossible(void)
{
    return opt.steps <= 0                            ? "--steps is at least 1"
           : opt.ranks <= 0                          ? "--ranks is at least 1"
           : opt.cores <= 0 || opt.cores > CORES_MAX ? "--cores is from 1 to 128"
           : opt.rank >= opt.ranks                   ? "--rank is below --ranks"
           : opt.straggler >= opt.ranks * opt.cores
               ? "--straggler: workers are numbered from 0 to --ranks times --cores - 1"
           : opt.late >= opt.ranks * opt.cores
               ? "--late: workers are numbered from 0 to --ranks times --cores - 1"
               : NULL;
}

static bool
parse(int argc, char **argv)
{
    static const struct option longs[] = {
        { "steps", 1, NULL, 's' },      { "ranks", 1, NULL, 'R' },
        { "rank", 1, NULL, 'r' },       { "cores", 1, NULL, 'c' },
        { "first-core", 1, NULL, 'f' }, { "exec-us", 1, NULL, 'e' },
        { "cc", 1, NULL, 'C' },         { "straggler", 1, NULL, 'S' },
        { "late", 1, NULL, 'l' },       { "checkpoint-every", 1, NULL, 'k' },
        { "neff", 1, NULL, 'n' },       { "checkpoint-dir", 1, NULL, 'd' },
        { "quiet", 0, NULL, 'q' },      { "help", 0, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };
    long *const numbers[128] = { ['s'] = &opt.steps,      ['R'] = &opt.ranks,
                                 ['r'] = &opt.rank,       ['c'] = &opt.cores,
                                 ['f'] = &opt.first_core, ['e'] = &opt.exec_us,
                                 ['C'] = &opt.cc,         ['S'] = &opt.straggler,
                                 ['l'] = &opt.late,       ['k'] = &opt.checkpoint_every };
    const char *why;
    char *rest = NULL;
    int o, at = 0;

    while ((o = getopt_long(argc, argv, "h", longs, &at)) != -1) {
        if (o == 'h') {
            fputs(usage, stdout);
            exit(0);
        }
        if (o == '?')
            return false;
        if (o == 'q')
            opt.quiet = true;
        else if (o == 'd')
            opt.checkpoint_dir = optarg;
        else if (o == 'n')
            opt.neff = optarg;
        else
            *numbers[o] = strtol(optarg, &rest, 10);
        if (o == 'S' && *rest == ':')
            opt.factor = strtod(rest + 1, &rest);
        if (o == 'l' && *rest == ':')
            opt.late_ms = strtol(rest + 1, &rest, 10);
        if (rest != NULL && (*rest != '\0' || rest == optarg)) {
            fprintf(stderr, "train_loop: --%s: '%s' is not a number\n", longs[at].name, optarg);
            return false;
        }
    }
    if (optind < argc)
        fprintf(stderr, "train_loop: '%s' is no option\n", argv[optind]);
    else if ((why = impossible()) != NULL)
        fprintf(stderr, "train_loop: %s\n", why);
    else
        return true;
    return false;
}

int
main(int argc, char **argv)
{
    long rank = launched("RANK", "SLURM_PROCID"), ranks = launched("WORLD_SIZE", "SLURM_NTASKS");

    if (rank >= 0 && ranks > 0) {
        opt.rank = rank;
        opt.ranks = ranks;
    }
    if (!parse(argc, argv)) {
        fputs("train_loop --help lists the options\n", stderr);
        return 2;
    }
    return opt.rank >= 0 ? run_rank() : spawn_ranks();
}
