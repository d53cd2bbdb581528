/* tests/simnrt/sim_help.h - a small, fast simulated runtime for tests. Every case is a process of
 * its own, so a case makes its settings before the first call and never resets them. */
#ifndef MRD_TESTS_SIM_HELP_H
#define MRD_TESTS_SIM_HELP_H

#include <stdlib.h>
#include <string.h>

#include "capture/nrt/nrta_abi.h"
#include "tests/check.h"

#define SIM_NEFF                                                                                   \
    "SIMNEFF 1\nname=test\nexec_us=2000\ncc=4\ntensor_frees=3\ncopyins=2\n"                        \
    "input=x:float32:8x8\noutput=y:float32:8x8\n"

#define OK(call) CHECK_INT(call, NRT_SUCCESS)

typedef struct {
    nrt_model_t *model;
    nrt_tensor_t *x, *y;
    nrt_tensor_set_t *in, *out;
} sim_job;

static inline void
sim_settings_small(void)
{
    setenv("SIMNRT_INSTANCE", "trn2.3xlarge", 0);
    setenv("SIMNRT_TIME_SCALE", "0.2", 0);
    setenv("NEURON_RT_EXEC_TIMEOUT", "20", 0);
}

/* Jobs that a case leaves are freed at its end, so that the leak checker reports leaks of the
 * runtime only. */
static sim_job sim_jobs[64];
static size_t sim_job_count;

static inline void
sim_job_drop(sim_job *job)
{
    nrt_tensor_free(&job->x);
    nrt_tensor_free(&job->y);
    nrt_destroy_tensor_set(&job->in);
    nrt_destroy_tensor_set(&job->out);
}

static inline void
sim_jobs_drop(void)
{
    nrt_close();
    while (sim_job_count > 0)
        sim_job_drop(&sim_jobs[--sim_job_count]);
}

static inline void
sim_tensors(sim_job *job, int core)
{
    OK(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, core, 256, "x", &job->x));
    OK(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, core, 256, "y", &job->y));
    OK(nrt_allocate_tensor_set(&job->in));
    OK(nrt_allocate_tensor_set(&job->out));
    OK(nrt_add_tensor_to_tensor_set(job->in, "x", job->x));
    OK(nrt_add_tensor_to_tensor_set(job->out, "y", job->y));
    if (sim_job_count == 0)
        atexit(sim_jobs_drop);
    if (sim_job_count < MRD_COUNT(sim_jobs))
        sim_jobs[sim_job_count++] = *job;
}

static inline sim_job
sim_job_load(int core, uint32_t rank, uint32_t ranks)
{
    sim_job job = { 0 };

    if (ranks > 1)
        OK(nrt_load_collectives(SIM_NEFF, strlen(SIM_NEFF), core, -1, rank, ranks, &job.model));
    else
        OK(nrt_load(SIM_NEFF, strlen(SIM_NEFF), core, -1, &job.model));
    sim_tensors(&job, core);
    return job;
}

static inline void
sim_job_free(sim_job *job)
{
    for (size_t i = 0; i < sim_job_count; i++)
        if (sim_jobs[i].x == job->x)
            sim_jobs[i] = sim_jobs[--sim_job_count];
    sim_job_drop(job);
    nrt_unload(job->model);
}

#endif
