/*
 * spank_meridian.c - SPANK plug-in: srun, sbatch and salloc take --meridian[=stream|recorder|off][,options].
 *
 * On each node of a job that requests a recording, it writes /run/meridian/jobs/<job id> before the first task starts. The agent
 * needs nothing else to begin the job's session. The plug-in also puts libmeridian.so into the environment of the tasks, so that
 * --export=NONE does not matter. It opens no connection and waits for nothing. On a node without an agent, a job costs one file.
 *
 * A request comes from the first of these: the option, MERIDIAN_SESSION in the job's environment, the job's file, the plug-in's
 * argument default=. The prolog writes the option and the comment into the job's file.
 *
 * plugstack.conf:  optional /opt/slurm/lib/spank_meridian.so [default=stream] [jobs=/run/meridian/jobs] [library=/usr/lib/libmeridian.so].
 * Build with `make -C deploy/slurm`, which needs slurm/spank.h of the cluster's Slurm. Its major version is compiled in.
 *
 * No function may break a job, so each returns success. The exception is a word after --meridian= that is no request at all. srun and
 * sbatch refuse it before anything is allocated. The aggregator decides whether a request is permitted.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <slurm/spank.h>

SPANK_PLUGIN(meridian, 1)

#define REQUEST_MAX 256
#define PATH_SIZE   512

static char request[REQUEST_MAX]; /* value of the option; empty if the option was not given */
static bool option_given;
static char default_request[REQUEST_MAX];
static char jobs_dir[PATH_SIZE] = "/run/meridian/jobs";
static char library[PATH_SIZE] = "/usr/lib/libmeridian.so";

/* ---- The request ---- */

/* Letters, digits and a few marks: it goes into a file of lines, and to people. */
static bool
is_request(const char *text)
{
    size_t n = strlen(text);

    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char) text[i]) && strchr("=,._*+:-", text[i]) == NULL)
            return false;
    return n < REQUEST_MAX;
}

/* srun gives NULL for an option without a value, slurmstepd "", and an srun inside of a job, which inherits the option by a
 * variable, the text "(null)". */
static int
on_option(int val, const char *arg, int remote)
{
    (void) val;
    if (arg != NULL && strcmp(arg, "(null)") == 0)
        arg = NULL;
    if (arg != NULL && !is_request(arg)) {
        if (!remote)
            slurm_error("--meridian=%.60s: stream, recorder or off, then options with commas: "
                        "--meridian=recorder,keep=1min",
                        arg);
        return remote ? 0 : -1;
    }
    option_given = true;
    snprintf(request, sizeof(request), "%s", arg == NULL ? "" : arg);
    return 0;
}

static struct spank_option options[] = { { "meridian", "stream|recorder|off,...",
                                           "record this job with Meridian: stream, recorder, off, "
                                           "and options of `meridian start`, with commas",
                                           2, 0, on_option },
                                         SPANK_OPTIONS_TABLE_END };

static void
read_arguments(int ac, char **av)
{
    static const struct {
        const char *key;
        char *to;
        size_t size;
    } keys[] = { { "default=", default_request, sizeof(default_request) },
                 { "jobs=", jobs_dir, sizeof(jobs_dir) },
                 { "library=", library, sizeof(library) } };

    for (int i = 0; i < ac; i++)
        for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++)
            if (strncmp(av[i], keys[k].key, strlen(keys[k].key)) == 0)
                snprintf(keys[k].to, keys[k].size, "%s", av[i] + strlen(keys[k].key));
}

/* Reads the request from the job's file on this node. The prolog (option of sbatch, comment) or an
 * earlier step wrote it. */
static bool
read_request(spank_t sp, char to[REQUEST_MAX])
{
    char path[PATH_SIZE + 32], line[REQUEST_MAX + 16];
    bool found = false;
    uint32_t job;
    FILE *f;

    if (!spank_remote(sp) || spank_get_item(sp, S_JOB_ID, &job) != ESPANK_SUCCESS)
        return false;
    snprintf(path, sizeof(path), "%s/%u", jobs_dir, job);
    if ((f = fopen(path, "re")) == NULL)
        return false;
    while (!found && fgets(line, sizeof(line), f) != NULL)
        if (strncmp(line, "request=", 8) == 0) {
            line[strcspn(line, "\n")] = '\0';
            snprintf(to, REQUEST_MAX, "%.255s", line + 8);
            found = true;
        }
    fclose(f);
    return found;
}

/* Gets the job's request. Returns false if there is none. */
static bool
find_request(spank_t sp, char to[REQUEST_MAX])
{
    char text[REQUEST_MAX] = "";

    if (option_given)
        snprintf(text, sizeof(text), "%s", request);
    else if (spank_getenv(sp, "MERIDIAN_SESSION", text, sizeof(text)) == ESPANK_SUCCESS &&
             is_request(text))
        ;
    else if (read_request(sp, text))
        ;
    else if (default_request[0] != '\0')
        snprintf(text, sizeof(text), "%s", default_request);
    else
        return false;
    if (strcmp(text, "off") == 0 || strncmp(text, "off,", 4) == 0)
        return false;
    snprintf(to, REQUEST_MAX, "%s", text);
    return true;
}

/* ---- The job's file ---- */

/* Writes one line. Other control characters and line ends in the value are left out. */
static void
put_line(FILE *f, const char *key, const char *value)
{
    if (*value == '\0')
        return;
    fprintf(f, "%s=", key);
    for (const char *c = value; *c != '\0'; c++)
        if ((unsigned char) *c >= ' ')
            fputc(*c, f);
    fputc('\n', f);
}

static void
put_env(spank_t sp, FILE *f, const char *key, const char *name)
{
    char text[256];

    if (spank_getenv(sp, name, text, sizeof(text)) == ESPANK_SUCCESS)
        put_line(f, key, text);
}

static void
put_number(spank_t sp, FILE *f, const char *key, spank_item_t item)
{
    uint32_t v;

    if (spank_get_item(sp, item, &v) == ESPANK_SUCCESS && v != 0 && v != (uint32_t) -2)
        fprintf(f, "%s=%u\n", key, v);
}

/* Copies the lines that the prolog wrote about the owner's token and the job's owner. False, with
 * errno, if they cannot be read. */
static bool
copy_lines(FILE *to, const char *path)
{
    FILE *f = fopen(path, "re");
    char line[512];

    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        if (strncmp(line, "request=", 8) != 0 && strncmp(line, "ended=", 6) != 0)
            fputs(line, to);
    if (f == NULL)
        return errno == ENOENT;
    if (ferror(f)) {
        fclose(f);
        return false;
    }
    fclose(f);
    return true;
}

/* Writes to slurmd's log why the job is not recorded. The job itself runs. */
static void
not_recorded(uint32_t job, const char *path)
{
    slurm_error("meridian: job %u is not recorded, because %s cannot be written: %s", job, path,
                strerror(errno));
}

static void
write_file(spank_t sp, uint32_t job, uid_t uid, const char *asked)
{
    char path[PATH_SIZE + 32], temporary[PATH_SIZE + 48];
    bool failed;
    FILE *f;

    (void) mkdir("/run/meridian", 0755);
    (void) mkdir(jobs_dir, 0755);
    snprintf(path, sizeof(path), "%s/%u", jobs_dir, job);
    snprintf(temporary, sizeof(temporary), "%s/.%u.%d", jobs_dir, job, (int) getpid());
    f = fopen(temporary, "wxe");
    if (f == NULL || !copy_lines(f, path)) { /* the first value of a key counts */
        not_recorded(job, path);
        if (f != NULL)
            fclose(f);
        (void) unlink(temporary);
        return;
    }
    fprintf(f, "request=%s\njob=%u\nuid=%u\n", asked, job, (unsigned) uid);
    put_number(sp, f, "array_job", S_JOB_ARRAY_ID);
    put_env(sp, f, "array_task", "SLURM_ARRAY_TASK_ID");
    put_env(sp, f, "job_name", "SLURM_JOB_NAME");
    put_env(sp, f, "user", "SLURM_JOB_USER");
    put_env(sp, f, "account", "SLURM_JOB_ACCOUNT");
    put_env(sp, f, "partition", "SLURM_JOB_PARTITION");
    put_env(sp, f, "cluster", "SLURM_CLUSTER_NAME");
    put_env(sp, f, "restart", "SLURM_RESTART_COUNT");
    put_env(sp, f, "nodes", "SLURM_JOB_NUM_NODES");
    failed = fflush(f) != 0 || ferror(f);
    if (failed)
        not_recorded(job, path);
    fclose(f);
    if (!failed && rename(temporary, path) != 0) {
        not_recorded(job, path);
        failed = true;
    }
    if (failed)
        (void) unlink(temporary);
}

/* The file is there already as a step writes it, not the prolog alone: a later step. */
static bool
is_written(uint32_t job)
{
    char path[PATH_SIZE + 32], line[512];
    bool asks = false, ended = false;
    FILE *f;

    snprintf(path, sizeof(path), "%s/%u", jobs_dir, job);
    if ((f = fopen(path, "re")) == NULL)
        return false;
    while (fgets(line, sizeof(line), f) != NULL) {
        asks = asks || strncmp(line, "nodes=", 6) == 0;
        ended = ended || strncmp(line, "ended=", 6) == 0;
    }
    fclose(f);
    return asks && !ended;
}

/* ---- What Slurm calls ---- */

int
slurm_spank_init(spank_t sp, int ac, char **av)
{
    read_arguments(ac, av);
    if (spank_context() == S_CTX_LOCAL || spank_context() == S_CTX_REMOTE ||
        spank_context() == S_CTX_ALLOCATOR)
        for (size_t i = 0; options[i].name != NULL; i++)
            (void) spank_option_register(sp, &options[i]);
    return 0;
}

/* In slurmstepd as root, before any task of the step is made. */
int
slurm_spank_init_post_opt(spank_t sp, int ac, char **av)
{
    char asked[REQUEST_MAX];
    uint32_t job;
    uid_t uid;

    (void) ac;
    (void) av;
    if (!spank_remote(sp) &&
        option_given) { /* for the prolog of every node, independent of --export */
        char text[REQUEST_MAX + 1];

        snprintf(text, sizeof(text), "=%.255s", request);
        (void) spank_job_control_setenv(sp, "MERIDIAN_REQUEST", text, 1);
    }
    if (!spank_remote(sp) || !find_request(sp, asked) ||
        spank_get_item(sp, S_JOB_ID, &job) != ESPANK_SUCCESS ||
        spank_get_item(sp, S_JOB_UID, &uid) != ESPANK_SUCCESS)
        return 0;
    if (geteuid() == 0 && !is_written(job))
        write_file(sp, job, uid, asked);
    return 0;
}

/* As the user, in the task. */
int
slurm_spank_task_init(spank_t sp, int ac, char **av)
{
    char asked[REQUEST_MAX], preload[4096] = "", all[4096 + PATH_SIZE], capture[8];
    spank_err_t has;

    (void) ac;
    (void) av;
    if (!find_request(sp, asked) || access(library, R_OK) != 0)
        return 0;
    has = spank_getenv(sp, "LD_PRELOAD", preload, sizeof(preload));
    if (has != ESPANK_SUCCESS && has != ESPANK_ENV_NOEXIST)
        return 0; /* the job's LD_PRELOAD is too long for the buffer, so it stays unchanged */
    if (has == ESPANK_SUCCESS &&
        (strpbrk(preload, " \t") != NULL || strstr(preload, library) != NULL))
        return 0; /* a list with blanks is left alone; ours is in it already */
    snprintf(all, sizeof(all), "%s%s%s", library, preload[0] == '\0' ? "" : ":", preload);
    (void) spank_setenv(sp, "LD_PRELOAD", all, 1);
    (void) spank_setenv(sp, "MERIDIAN_ENABLE", "1", 0);
    if (spank_getenv(sp, "MERIDIAN_CAPTURE", capture, sizeof(capture)) == ESPANK_ENV_NOEXIST)
        (void) spank_setenv(sp, "MERIDIAN_CAPTURE", "all", 0);
    return 0;
}
