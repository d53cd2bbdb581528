/* Writes the truth file. It contains the simulated facts, with which tests compare the captured
 * data. */
#include "sim.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

static FILE *truth;
static pthread_mutex_t truth_lock = PTHREAD_MUTEX_INITIALIZER;

void
sim_truth_open(const char *path)
{
    char name[4096];

    if (*path == '\0' || truth != NULL)
        return;
    snprintf(name, sizeof(name), "%s.%d", path, (int) getpid());
    if ((truth = fopen(name, "ae")) == NULL) {
        sim_log("SIMNRT_TRUTH: cannot write '%s'", name);
        return;
    }
    setvbuf(truth, NULL, _IOFBF, 1 << 16);
    sim_truth_line("# " SIM_LABEL);
    sim_truth_line("node name=%s instance_id=%s cores=%u first=%u lnc=%u", sim.node,
                   sim.instance_id, sim.core_count, sim.core_first, sim.lnc);
    for (uint32_t i = 0; i < sim.core_count; i++)
        for (unsigned p = 0; p < sim.lnc; p++)
            sim_truth_line("devclock core=%u pcore=%u origin_ns=%" PRId64 " rate_ppt=%" PRId64, i,
                           sim_pcore(&sim.core[i], p), sim.core[i].origin[p],
                           sim.core[i].rate_ppt[p]);
}

void
sim_truth_line(const char *format, ...)
{
    va_list args;

    pthread_mutex_lock(&truth_lock);
    if (truth != NULL) {
        va_start(args, format);
        vfprintf(truth, format, args);
        va_end(args);
        fputc('\n', truth);
    }
    pthread_mutex_unlock(&truth_lock);
}

/* Flushes the truth file. Called before a long time without writes, so that a concurrent reader
 * sees all lines. */
void
sim_truth_flush(void)
{
    pthread_mutex_lock(&truth_lock);
    if (truth != NULL)
        fflush(truth);
    pthread_mutex_unlock(&truth_lock);
}

void
sim_truth_event(const sim_emit_args *args, int64_t stamp, uint64_t dev, bool kept)
{
    static const char phases[] = "BEI";

    if (truth == NULL)
        return;
    sim_truth_line("%c core=%u type=%d tracking=%" PRIu64 " raw=%" PRId64 " stamp=%" PRId64
                   " dev=%" PRIu64 " kept=%d",
                   phases[args->phase], args->core->idx, (int) args->type, args->tracking,
                   args->raw, stamp, dev, kept);
}

void
sim_truth_forked(void)
{
    pthread_mutex_init(&truth_lock, NULL);
    /* The child must not close the file, because that would write the parent's buffered lines a
     * second time. */
    truth = NULL;
}

void
sim_truth_close(void)
{
    pthread_mutex_lock(&truth_lock);
    if (truth != NULL)
        fclose(truth);
    truth = NULL;
    pthread_mutex_unlock(&truth_lock);
}
