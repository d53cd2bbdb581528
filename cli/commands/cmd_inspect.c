/* `meridian inspect -- COMMAND`: runs a command, records it and its descendants, and writes the
 * profile. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/daemon/sample.h"
#include "agent/rings/drain.h"
#include "base/obj.h"
#include "base/sys/out.h"
#include "base/vec.h"
#include "base/version.h"
#include "cli/cli.h"
#include "cli/view/output_lock.h"
#include "cli/view/profile_write.h"
#include "cli/view/times.h"
#include "cli/view/view.h"
#include "hw/identity.h"
#include "trace/import/import.h"

extern char **environ;

typedef struct {
    mrd_profile_options profile;
    int64_t events_per_core, max_size, memory;
    bool system, verbose;
    char *device, *capture, *library, *instance, *vendor_tool;
    mrd_dur_ns sample;
} settings;

#define AT(member) .offset = offsetof(settings, member)

static const mrd_opt table[] = {
    { .type = MRD_OPT_HEAD, .help = "Capture" },
    { .name = "capture-system-profiles",
      .type = MRD_OPT_BOOL,
      AT(system),
      .def = "1",
      .help = "record the runtime's own system trace (on; =0 leaves it out)" },
    { .name = "capture-device-profiles",
      .type = MRD_OPT_STR,
      AT(device),
      .def = "0",
      .implied = "1",
      .arg = "0|1|model|session",
      .flags = MRD_OPT_OPTIONAL,
      .help = "let the runtime write device profiles (NTFF)" },
    { .name = "verbose",
      .type = MRD_OPT_BOOL,
      AT(verbose),
      .help = "say what is started, with the variables that are set for it" },
    { .name = "num-trace-events",
      .letter = 'n',
      .type = MRD_OPT_INT,
      AT(events_per_core),
      .min = 1,
      .max = 1LL << 40,
      .arg = "N",
      .help = "size of the runtime's event ring per core (default 1000000)" },
    { .name = "capture",
      .type = MRD_OPT_STR,
      AT(capture),
      .arg = "LIST",
      .env = "MERIDIAN_CAPTURE",
      .help = "what libmeridian records (docs/reference/api.md lists the words)" },
    { .name = "sample",
      .type = MRD_OPT_DUR,
      AT(sample),
      .def = "1s",
      .min = 10 * MRD_MS,
      .max = 3600 * MRD_SEC,
      .arg = "DURATION",
      .help = "interval of CPU, memory and device counters" },
    { .name = "instance-id",
      .type = MRD_OPT_STR,
      AT(instance),
      .arg = "ID",
      .env = "MERIDIAN_INSTANCE_ID",
      .help = "name of this node (default: the instance's own, else the machine id)" },
    { .name = "library",
      .type = MRD_OPT_STR,
      AT(library),
      .arg = "FILE",
      .env = "MERIDIAN_LIBRARY",
      .help = "libmeridian.so to preload (default: beside this program)" },
    { .name = "vendor-tool",
      .type = MRD_OPT_STR,
      AT(vendor_tool),
      .arg = "PATH|none",
      .env = "MERIDIAN_VENDOR_TOOL",
      .help = "neuron-explorer or neuron-profile, to convert device profiles" },
    MRD_PROFILE_OUTPUT_ROWS(settings, profile, "output"),
    MRD_PROFILE_SLICE_ROWS(settings, profile),
    { .name = "filter",
      .type = MRD_OPT_LIST,
      AT(profile.types),
      .arg = "LIST",
      .flags = MRD_OPT_HIDDEN,
      .help = "as --system-trace-filter-event-type" },
    { .type = MRD_OPT_HEAD, .help = "Resources" },
    { .name = "max-size",
      .type = MRD_OPT_SIZE,
      AT(max_size),
      .def = "8G",
      .min = 1 << 20,
      .max = 1LL << 50,
      .arg = "SIZE",
      .help = "events kept on disk while recording; more are dropped and counted" },
    { .name = "memory",
      .type = MRD_OPT_SIZE,
      AT(memory),
      .def = "48M",
      .min = 1 << 20,
      .max = 1LL << 40,
      .arg = "SIZE",
      .env = "MERIDIAN_MEMORY",
      .help = "events held in memory" },
};

static const char more[] =
    "The command keeps its own input, output and exit status. Ctrl-C goes to it, and so do "
    "SIGINT,\nSIGQUIT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 that are sent to meridian; the profile "
    "is\nwritten all the same. Results and what the runtime itself writes land in the output\n"
    "directory; with results of an earlier run in it the command is not started, unless --force\n"
    "replaces them.\n"
    "\n"
    "Examples\n"
    "  meridian inspect -o out -- python train.py\n"
    "  meridian inspect -o out --capture-device-profiles=session -- torchrun --nproc_per_node=32 "
    "train.py\n";

/* ---- The child's environment ---- */

typedef struct {
    char **v;
    size_t n, cap;
    mrd_err err;
} env_list;

static void
env_put(env_list *env, mrd_buf *line)
{
    const char *text = mrd_buf_cstr(line);
    size_t name = strcspn(text, "=");
    char *copy = line->err == MRD_OK ? mrd_str_dup(mrd_str_of(text)) : NULL;

    mrd_buf_reset(line);
    if (copy == NULL) {
        env->err = MRD_NOMEM;
        return;
    }
    for (size_t i = 0; i < env->n; i++) {
        if (strncmp(env->v[i], copy, name + 1) == 0) {
            free(env->v[i]);
            env->v[i] = copy;
            return;
        }
    }
    /* the array needs an element for the terminating NULL */
    if (!MRD_VEC_ROOM(env->v, env->n, env->cap, 2)) {
        free(copy);
        env->err = MRD_NOMEM;
        return;
    }
    env->v[env->n++] = copy;
    env->v[env->n] = NULL;
}

static void
env_free(env_list *env)
{
    for (size_t i = 0; i < env->n; i++)
        free(env->v[i]);
    free(env->v);
}

#define ENV_SET(env, line, ...)                                                                    \
    do {                                                                                           \
        mrd_buf_fmt((line), __VA_ARGS__);                                                          \
        env_put((env), (line));                                                                    \
    } while (0)

/* Prints the command. With `verbose`, also prints the variables that are set for it, as a line that
 * a shell can run if no value contains spaces. */
static void
say_start(const env_list *env, const mrd_strlist *words, bool verbose)
{
    mrd_buf command = { 0 }, line = { 0 };

    for (size_t i = 0; i < words->n; i++)
        mrd_buf_fmt(&command, "%s%s", i == 0 ? "" : " ", words->v[i]);
    mrd_buf_fmt(&line, "\"%s\" with profiling enabled", mrd_buf_cstr(&command));
    mrd_cli_say("Running command", (mrd_str){ (const char *) line.p, line.len });
    mrd_buf_reset(&line);
    for (size_t i = 0; i < env->n; i++) {
        if (strncmp(env->v[i], "LD_PRELOAD=", 11) == 0 || strncmp(env->v[i], "MERIDIAN_", 9) == 0 ||
            strncmp(env->v[i], "NEURON_RT_INSPECT_", 18) == 0)
            mrd_buf_fmt(&line, "%s ", env->v[i]);
    }
    mrd_buf_str(&line, (mrd_str){ (const char *) command.p, command.len });
    if (verbose)
        mrd_cli_say("starting", (mrd_str){ (const char *) line.p, line.len });
    mrd_buf_fini(&command);
    mrd_buf_fini(&line);
}

static mrd_err
child_env(const settings *set, const char *library, const char *rings, env_list *env)
{
    const char *preload = getenv("LD_PRELOAD");
    bool device = set->device != NULL && strcmp(set->device, "0") != 0;
    mrd_buf line = { 0 };

    for (char **e = environ; *e != NULL; e++)
        ENV_SET(env, &line, "%s", *e);
    ENV_SET(env, &line, "LD_PRELOAD=%s%s%s", library, preload == NULL ? "" : ":",
            preload == NULL ? "" : preload);
    ENV_SET(env, &line, "MERIDIAN_ENABLE=1");
    ENV_SET(env, &line, "MERIDIAN_RING_DIR=%s", rings);
    if (set->capture != NULL)
        ENV_SET(env, &line, "MERIDIAN_CAPTURE=%s", set->capture);
    else if (!set->system)
        ENV_SET(env, &line, "MERIDIAN_CAPTURE=api,annotations,models");
    if (set->events_per_core > 0)
        ENV_SET(env, &line, "NEURON_RT_INSPECT_SYS_TRACE_MAX_EVENTS_PER_NC=%" PRId64,
                set->events_per_core);
    ENV_SET(env, &line, "NEURON_RT_INSPECT_OUTPUT_DIR=%s", set->profile.dir);
    if (device) {
        /* The system profile is recorded live, through the rings. If the runtime also saved it,
         * every event would be recorded twice. */
        ENV_SET(env, &line, "NEURON_RT_INSPECT_ENABLE=1");
        ENV_SET(env, &line, "NEURON_RT_INSPECT_SYSTEM_PROFILE=0");
        ENV_SET(env, &line, "NEURON_RT_INSPECT_DEVICE_PROFILE=%s", set->device);
    }
    mrd_buf_fini(&line);
    return env->err;
}

/* Finds libmeridian.so: the path from the option, else the file in the library directory next to
 * this program's directory. A distribution's package may have it there only under its versioned
 * name. */
static mrd_err
find_library(const settings *set, char path[PATH_MAX], mrd_why *why)
{
    char self[PATH_MAX], guess[PATH_MAX + 64];
    ssize_t n;

    if (set->library != NULL) {
        if (realpath(set->library, path) == NULL)
            return mrd_why_set(why, MRD_NOTFOUND, errno, "--library %s", set->library);
        return MRD_OK;
    }
    if ((n = readlink("/proc/self/exe", self, sizeof(self) - 1)) <= 0)
        return mrd_why_set(why, MRD_IO, errno, "/proc/self/exe");
    self[n] = '\0';
    *strrchr(self, '/') = '\0';
    snprintf(guess, sizeof(guess), "%s/../" MRD_LIBDIR "/libmeridian.so.0", self);
    if (realpath(guess, path) != NULL)
        return MRD_OK;
    snprintf(guess, sizeof(guess), "%s/../lib/libmeridian.so", self);
    if (realpath(guess, path) == NULL)
        return mrd_why_set(why, MRD_NOTFOUND, errno,
                           "libmeridian.so is not where it is looked for (%s): --library names it",
                           guess);
    return MRD_OK;
}

/* ---- Storing events ---- */

typedef struct {
    const settings *set;
    mrd_catalog *catalog;
    mrd_store *store;
    mrd_drain *drain;
    /* bytes stored, events refused by --max-size, and events refused because the disk is full */
    uint64_t bytes, refused, no_room;
    uint64_t marked; /* number of lost events that the profile already shows as gaps */
    mrd_hw *hw;
    mrd_sample *sample;
    mrd_read_named *named; /* output directories of the programs' own profilers */
    size_t n_named;
    mrd_strlist earlier; /* contents of the output directory before the command began */
    mrd_wall_ns began;
    mrd_sid node;
    mrd_output_lock lock; /* lock of the output directory, held until the end */
} recording;

/* Stores an event in the stream of its process. Rings, samples and runtime traces of a process
 * share the stream. */
static mrd_err
take_event(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev)
{
    recording *rec = self;
    mrd_event mine = *ev;
    mrd_local_ns raw = clock == MRD_DRAIN_REALTIME
                           ? mrd_drain_to_raw(rec->drain, (mrd_wall_ns){ ev->ts.ns })
                           : (mrd_local_ns){ ev->ts.ns };
    mrd_err err;

    if (process->user == NULL)
        process->user = mrd_store_stream(rec->store, 0, "live capture");
    if (process->user == NULL)
        return MRD_NOMEM;
    if (rec->bytes > (uint64_t) rec->set->max_size) {
        rec->refused++;
        return MRD_LIMIT;
    }
    rec->bytes += 48 + ev->arg_count * 16u;
    mine.ts = (mrd_ev_ns){ mrd_drain_raw_to_wall(rec->drain, raw).ns };
    mine.bound_ns = MRD_BOUND_LOCAL;
    err = mrd_stream_push(process->user, &mine);
    rec->no_room += err == MRD_FULL;
    if (err == MRD_OK && ev->kind == MRD_LOSS)
        rec->marked += (uint64_t) ev->ivalue;
    return err;
}

static mrd_str
notice_value(const recording *rec, const mrd_arg *arg)
{
    return arg->type == MRD_ARG_STR    ? mrd_catalog_text(rec->catalog, arg->v.sid)
           : arg->type == MRD_ARG_TEXT ? ((mrd_str){ arg->v.text, arg->len })
                                       : MRD_STR("");
}

/* Returns the number of words in a list like "a,b,c". */
static unsigned
words_of(mrd_str list)
{
    unsigned n = list.len > 0;

    for (size_t i = 0; i < list.len; i++)
        n += list.p[i] == ',';
    return n;
}

#define NAMED_MAX 256u

/* Stores the path of an output directory, which a process reported in a notice. A profiler in the
 * program or its framework writes its results there. */
static void
take_folder(recording *rec, int64_t process, mrd_str folder)
{
    char path[PATH_MAX];

    if (folder.len < 2 || folder.p[0] != '/' || folder.len >= sizeof(path))
        return;
    snprintf(path, sizeof(path), MRD_STR_FMT, MRD_STR_ARG(folder));
    for (size_t i = 0; i < rec->n_named; i++) {
        if (strcmp(rec->named[i].path, path) == 0) {
            if (rec->named[i].process != process)
                rec->named[i].process = MRD_NONE;
            return;
        }
    }
    if (rec->n_named == NAMED_MAX || !MRD_VEC_NEXT(rec->named, rec->n_named))
        return;
    rec->named[rec->n_named] =
        (mrd_read_named){ .path = mrd_str_dup(mrd_str_of(path)), .process = process };
    rec->n_named += rec->named[rec->n_named].path != NULL;
}

/* Prints a notice of a process, such as "cannot arm: ...". Also adds it to the timeline as an
 * instant event, which has the full list of event types if the notice has one. */
static void
take_notice(void *self, mrd_drain_process *process, const mrd_event *ev)
{
    recording *rec = self;
    mrd_buf text = { 0 };

    for (uint32_t i = 0; i < ev->arg_count; i++) {
        mrd_str value = notice_value(rec, &ev->args[i]);

        if (mrd_str_is(mrd_catalog_text(rec->catalog, ev->args[i].key), "labels"))
            continue; /* labels are stored with the process */
        if (mrd_str_is(mrd_catalog_text(rec->catalog, ev->args[i].key), "event_types"))
            mrd_buf_fmt(&text, ", %u event types", words_of(value));
        else if (value.len > 0)
            mrd_buf_fmt(&text, " " MRD_STR_FMT, MRD_STR_ARG(value));
        if (mrd_str_is(mrd_catalog_text(rec->catalog, ev->args[i].key), "output_dir"))
            take_folder(rec, mrd_catalog_borrow_process(rec->catalog, process->id)->process_id,
                        value);
    }
    mrd_catalog_note(rec->catalog, "process %" PRId64 ": " MRD_STR_FMT "%s",
                     mrd_catalog_borrow_process(rec->catalog, process->id)->process_id,
                     MRD_STR_ARG(mrd_catalog_text(rec->catalog, ev->name)), mrd_buf_cstr(&text));
    mrd_buf_fini(&text);
}

static void
take_message(void *self, const char *message)
{
    recording *rec = self;

    mrd_catalog_note(rec->catalog, "%s", message);
}

/* ---- Running the command ---- */

static const int passed_on[] = { SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 };
static volatile sig_atomic_t came[MRD_COUNT(passed_on)];

/* Remembers a signal that must be passed on to the command. A signal from a key of the terminal
 * reaches the command directly and is not passed on. */
static void
on_signal(int sig, siginfo_t *info, void *context)
{
    (void) context;
    for (size_t i = 0; i < MRD_COUNT(passed_on); i++)
        came[i] = came[i] || (passed_on[i] == sig && info->si_code != SI_KERNEL);
}

/* Blocks or unblocks the signals that are passed on. They are blocked while the command starts, and
 * the handler is installed afterwards. If the handler came first, the command would not inherit
 * which signals to ignore (nohup). */
static void
wait_with_signals(int how)
{
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < MRD_COUNT(passed_on); i++)
        sigaddset(&set, passed_on[i]);
    sigprocmask(how, &set, NULL);
}

static void
pass_on(pid_t pid)
{
    for (size_t i = 0; i < MRD_COUNT(passed_on); i++) {
        if (came[i]) {
            came[i] = 0;
            kill(pid, passed_on[i]);
        }
    }
}

static mrd_err
spawn(char **argv, char **env, pid_t *ret_pid, mrd_why *why)
{
    posix_spawnattr_t attr;
    sigset_t none;
    int failed;

    posix_spawnattr_init(&attr);
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
    failed = posix_spawnp(ret_pid, argv[0], NULL, &attr, argv, env);
    posix_spawnattr_destroy(&attr);
    if (failed != 0)
        return mrd_why_set(why, failed == ENOENT ? MRD_NOTFOUND : MRD_IO, failed, "cannot run '%s'",
                           argv[0]);
    return MRD_OK;
}

/* Reads the rings until the command ends. Returns its wait status. */
static int
drain_until_exit(recording *rec, pid_t pid)
{
    struct sigaction act = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };
    struct sigaction before[MRD_COUNT(passed_on)];
    int status = 0;

    for (size_t i = 0; i < MRD_COUNT(passed_on); i++)
        sigaction(passed_on[i], &act, &before[i]);
    wait_with_signals(SIG_UNBLOCK);
    for (;;) {
        struct timespec nap = { .tv_nsec = 0 };
        int64_t wait_ns;

        mrd_drain_step(rec->drain);
        if (waitpid(pid, &status, WNOHANG) == pid)
            break;
        pass_on(pid);
        mrd_sample_step(rec->sample, rec->drain, mrd_local_now());
        /* wait briefly, so that a ring of the default size cannot fill up meanwhile */
        wait_ns = mrd_drain_wait_ns(rec->drain);
        nap.tv_nsec = (long) (wait_ns > 4 * MRD_MS ? 4 * MRD_MS : wait_ns);
        nanosleep(&nap, NULL);
    }
    for (size_t i = 0; i < MRD_COUNT(passed_on); i++)
        sigaction(passed_on[i], &before[i], NULL);
    mrd_drain_finish(rec->drain);
    return status;
}

static void
lost_here(mrd_buf *text, uint64_t n, const char *why)
{
    if (n > 0)
        mrd_buf_fmt(text, "%s%" PRIu64 " %s", mrd_buf_cstr(text)[0] != '\0' ? ", " : "", n, why);
}

/* Lists the live capture as an input in the profile's catalog, with the numbers of recorded and
 * lost events. */
static void
account(recording *rec, const char *command)
{
    mrd_drain_tally counts;
    mrd_input in = { .state = MRD_INPUT_OK };
    uint64_t dropped = 0;
    mrd_buf text = { 0 };
    const mrd_why *full;

    mrd_drain_counts(rec->drain, &counts);
    mrd_buf_fmt(&text, "live capture of '%s'", command);
    in.path = mrd_catalog_intern(rec->catalog, mrd_buf_cstr(&text));
    in.format = mrd_catalog_intern(rec->catalog, "rings");
    in.records = counts.begun - rec->marked;
    in.events = counts.events;
    in.bytes = counts.records * 32 + counts.blob_bytes;
    mrd_buf_reset(&text);
    for (int i = 0; i < MRD_DROP_CAUSES; i++) {
        uint64_t n = counts.dropped[i];

        /* The drain counts an event that take_event refused as lost for lack of memory. Subtract
         * these events, because they are reported below with the true reason. */
        if (i == MRD_DROP_MEMORY)
            n -= rec->refused + rec->no_room;
        lost_here(&text, n, mrd_drop_text((mrd_drop_cause) i));
        dropped += counts.dropped[i];
    }
    lost_here(&text, rec->refused, "beyond --max-size");
    lost_here(&text, rec->no_room, "disk full");
    in.dropped = dropped - rec->marked;
    in.lost = rec->marked;
    if (dropped > 0) {
        mrd_buf line = { 0 };

        mrd_buf_fmt(&line, "live capture lost events: %s", mrd_buf_cstr(&text));
        in.state = MRD_INPUT_INCOMPLETE;
        in.error = mrd_catalog_intern(rec->catalog, mrd_buf_cstr(&line));
        mrd_buf_fini(&line);
    }
    mrd_buf_fini(&text);
    mrd_catalog_add_input(rec->catalog, &in);
    if (rec->refused > 0)
        mrd_catalog_note(rec->catalog, "%" PRIu64 " event%s did not fit into --max-size",
                         rec->refused, mrd_plural(rec->refused));
    if ((full = mrd_store_full(rec->store)) != NULL)
        mrd_catalog_note(rec->catalog,
                         "%" PRIu64 " event%s did not fit: %s; what came before is kept",
                         rec->no_room, mrd_plural(rec->no_room), full->text);
    if (counts.processes_seen == 0)
        mrd_catalog_note(rec->catalog,
                         "nothing was recorded live: no process called the Neuron runtime or used "
                         "meridian.h (static and setuid programs cannot be recorded)");
}

/* Writes the profile. If another program wrote results into the output directory meanwhile, writes
 * it into a new directory next to that one. */
static mrd_err
write_profile(recording *rec, mrd_profile_result *ret_result, mrd_why *why)
{
    mrd_profile_options options = rec->set->profile;
    mrd_buf dir = { 0 };
    mrd_err err = mrd_profile_write(&options, rec->catalog, rec->store, stderr, ret_result, why);

    if (err != MRD_EXISTS)
        return err;
    mrd_buf_fmt(&dir, "%s-%d", options.dir, (int) getpid());
    options.dir = (char *) (uintptr_t) mrd_buf_cstr(&dir);
    fprintf(stderr, "meridian inspect: %s; so the results go to %s\n", why->text, options.dir);
    err = mrd_make_dirs(options.dir, why);
    if (err == MRD_OK)
        err = mrd_profile_write(&options, rec->catalog, rec->store, stderr, ret_result, why);
    mrd_buf_fini(&dir);
    return err;
}

/* Reads the directories that profilers named in notices. Skips those below the output directory,
 * which were already read. */
static mrd_err
read_named(recording *rec, const mrd_read_options *of, mrd_why *why)
{
    mrd_read_options read = *of;
    char out[PATH_MAX];
    mrd_err err = MRD_OK;

    read.earlier = NULL;
    read.all_earlier = true;
    if (realpath(rec->set->profile.dir, out) == NULL)
        return mrd_why_set(why, MRD_IO, errno, "%s", rec->set->profile.dir);
    for (size_t i = 0; i < rec->n_named && err == MRD_OK; i++) {
        const char *path = rec->named[i].path;
        size_t len = strlen(out);
        bool below = strncmp(path, out, len) == 0 && (path[len] == '/' || path[len] == '\0');

        if (!below && access(path, R_OK | X_OK) == 0)
            err = mrd_read_dir(&read, path, why);
    }
    return err;
}

/* Replaces the named paths by their real paths. A path may contain a symbolic link, because a
 * program may create the link after it reported the path. */
static void
resolve_named(recording *rec)
{
    char *out = realpath(rec->set->profile.dir, NULL);

    for (size_t i = 0; i < rec->n_named; i++) {
        char *real = realpath(rec->named[i].path, NULL);

        if (real == NULL)
            continue;
        free(rec->named[i].path);
        rec->named[i].path = real;
        if (out != NULL && strcmp(real, out) == 0)
            rec->named[i].process = MRD_NONE;
    }
    free(out);
}

/* Reads the files that the command left, and writes the profile. Sets *ret_whole to false if an
 * input is incomplete or an output ended early. A message about it was then printed. */
static mrd_err
finish_profile(recording *rec, const char *command, bool *ret_whole, mrd_why *why)
{
    bool never = rec->set->vendor_tool != NULL && strcmp(rec->set->vendor_tool, "none") == 0;
    mrd_read_options read = { .catalog = rec->catalog,
                              .store = rec->store,
                              .system = true,
                              .device = true,
                              .node = rec->node,
                              .vendor_tool = never ? "" : rec->set->vendor_tool,
                              .vendor_timeout_ms = 600000,
                              .vendor_disk = 64ull << 30,
                              .earlier = &rec->earlier,
                              .earlier_than = rec->began };
    mrd_profile_result result = { 0 };
    mrd_err err;

    account(rec, command);
    mrd_drain_say(rec->drain, take_message, rec);
    resolve_named(rec);
    read.named = rec->named;
    read.n_named = rec->n_named;
    if ((err = mrd_read_dir(&read, rec->set->profile.dir, why)) != MRD_OK ||
        (err = read_named(rec, &read, why)) != MRD_OK)
        return err;
    for (size_t i = 0; i < mrd_store_streams(rec->store); i++) {
        if ((err = mrd_stream_finish(mrd_store_at(rec->store, i), why)) != MRD_OK)
            return err;
    }
    if ((err = mrd_note_times(rec->catalog, rec->store, true, why)) != MRD_OK)
        return err;
    *ret_whole = mrd_view_report_inputs(rec->catalog);
    err = write_profile(rec, &result, why);
    *ret_whole = *ret_whole && !result.incomplete;
    return err;
}

/* Removes the directory with all rings, including rings of descendants that still run. */
static void
remove_ring_dir(const char *dir)
{
    DIR *d = *dir == '\0' ? NULL : opendir(dir);
    struct dirent *entry;

    while (d != NULL && (entry = readdir(d)) != NULL)
        unlinkat(dirfd(d), entry->d_name, 0);
    if (d != NULL)
        closedir(d);
    if (*dir != '\0')
        rmdir(dir);
}

/* Locks the ring directory. The lock ends with the process, however the process ends. `mine` means
 * that this process just created the directory. Then a file system without locks is not an error.
 * Errors: AGAIN if another process holds the lock or the directory was removed. */
static mrd_err
lock_ring_dir(const char *dir, bool mine, int *ret_fd)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    struct stat st, there;

    if (fd >= 0 &&
        (flock(fd, LOCK_EX | LOCK_NB) == 0 || (mine && errno != EWOULDBLOCK && errno != EINTR)) &&
        fstat(fd, &st) == 0 && st.st_uid == geteuid() && stat(dir, &there) == 0 &&
        st.st_ino == there.st_ino) {
        *ret_fd = fd;
        return MRD_OK;
    }
    if (fd >= 0)
        close(fd);
    return MRD_AGAIN;
}

#define RING_DIR "meridian-inspect."

/* Removes the ring directories of recordings that were killed. A directory is in use while its
 * recording holds the lock. */
static void
sweep_ring_dirs(const char *base)
{
    DIR *d = opendir(base);
    struct dirent *entry;
    char dir[PATH_MAX];
    int fd;

    while (d != NULL && (entry = readdir(d)) != NULL) {
        if (!mrd_str_starts(mrd_str_of(entry->d_name), RING_DIR))
            continue;
        snprintf(dir, sizeof(dir), "%s/%s", base, entry->d_name);
        if (lock_ring_dir(dir, false, &fd) != MRD_OK)
            continue;
        remove_ring_dir(dir);
        close(fd);
    }
    if (d != NULL)
        closedir(d);
}

/* Creates a directory for the rings of this recording: in shared memory if available, otherwise in
 * $TMPDIR. */
static mrd_err
make_ring_dir(char dir[PATH_MAX], int *ret_fd, mrd_why *why)
{
    const char *tmp = getenv("TMPDIR");
    const char *bases[] = { "/dev/shm", tmp != NULL && *tmp != '\0' ? tmp : "/tmp" };

    for (size_t i = 0; i < MRD_COUNT(bases); i++)
        sweep_ring_dirs(bases[i]);
    for (size_t i = 0; i < MRD_COUNT(bases); i++) {
        /* Another recording may remove the directory before this one locks it. Then create another
         * one. */
        for (int tries = 0; tries < 100; tries++) {
            snprintf(dir, PATH_MAX, "%s/" RING_DIR "XXXXXX", bases[i]);
            if (mkdtemp(dir) == NULL)
                break;
            if (lock_ring_dir(dir, true, ret_fd) == MRD_OK)
                return MRD_OK;
            (void) rmdir(dir);
        }
    }
    dir[0] = '\0';
    return mrd_why_set(why, MRD_IO, errno, "cannot create a folder for rings in /dev/shm or %s",
                       bases[1]);
}

/* Creates the output directory, and lists files of earlier runs in it. */
static mrd_err
prepare_output(recording *rec, mrd_why *why)
{
    const char *dir = rec->set->profile.dir;
    struct dirent *entry;
    mrd_err err = mrd_output_lock_take(&rec->lock, dir, why);
    DIR *d;

    if (err != MRD_OK || (err = mrd_profile_check_output(&rec->set->profile, why)) != MRD_OK)
        return err;
    if ((d = opendir(dir)) == NULL)
        return mrd_why_set(why, MRD_IO, errno, "cannot list %s", dir);
    while (err == MRD_OK && (entry = readdir(d)) != NULL)
        err = mrd_strlist_add(&rec->earlier, mrd_str_of(entry->d_name));
    closedir(d);
    rec->began = mrd_wall_now();
    return err == MRD_OK ? err : mrd_why_set(why, err, 0, "%s", dir);
}

static mrd_err
open_recording(recording *rec, const mrd_node_identity *node, const char *rings, mrd_why *why)
{
    static const char *const patterns[] = { "cpu.*.util_percent", "mem.used_bytes",
                                            "mem.used_percent",
                                            "neuron*.stats.memory_usage.*.total",
                                            "runtime.*utilization" };
    mrd_drain_options rings_of = { .catalog = rec->catalog,
                                   .instance_id = node->instance_id,
                                   .ring_dir = rings,
                                   .only_uid = -1,
                                   .event = take_event,
                                   .notice = take_notice,
                                   .self = rec };
    mrd_sample_options sample = { .catalog = rec->catalog,
                                  .instance_id = node->instance_id,
                                  .period = rec->set->sample,
                                  .process_period = rec->set->sample,
                                  .patterns = patterns,
                                  .n_patterns = MRD_COUNT(patterns),
                                  .event = take_event,
                                  .self = rec };
    mrd_hw_options hw = { .monitor = "" };
    mrd_err err;

    if ((err = mrd_drain_open(&rings_of, &rec->drain, why)) != MRD_OK ||
        (err = mrd_hw_open(&hw, &rec->hw, why)) != MRD_OK)
        return err;
    return mrd_sample_open(rec->hw, &sample, &rec->sample, why);
}

static int
inspect(void *self, const mrd_strlist *words)
{
    const settings *set = self;
    recording rec = { .set = set, .lock = MRD_OUTPUT_LOCK_NONE };
    mrd_why why = { 0 };
    mrd_node_options who = { .instance_id = set->instance };
    mrd_node_identity node;
    env_list env = { 0 };
    char library[PATH_MAX], rings[PATH_MAX] = "", **argv = NULL;
    int status = MRD_EXIT_FAILED, wait_status = 0, rings_fd = -1;
    bool whole = true;
    pid_t pid;
    mrd_err err;

    if ((err = mrd_profile_check(&set->profile, &why)) != MRD_OK ||
        (err = mrd_filter_check_types(&set->profile.types, NULL, &why)) != MRD_OK ||
        (err = mrd_node_identify(&who, &node, &why)) != MRD_OK) {
        status = err == MRD_NOMEM ? MRD_EXIT_FAILED : MRD_EXIT_USAGE;
        goto out;
    }
    if ((err = find_library(set, library, &why)) != MRD_OK ||
        (err = prepare_output(&rec, &why)) != MRD_OK ||
        (err = make_ring_dir(rings, &rings_fd, &why)) != MRD_OK)
        goto out;
    if ((argv = calloc(words->n + 1, sizeof(*argv))) == NULL ||
        (rec.catalog = mrd_catalog_new()) == NULL ||
        (rec.store = mrd_store_new((size_t) set->memory, NULL)) == NULL ||
        child_env(set, library, rings, &env) != MRD_OK) {
        err = mrd_why_set(&why, MRD_NOMEM, 0, "starting");
        goto out;
    }
    for (size_t i = 0; i < words->n; i++)
        argv[i] = words->v[i];
    mrd_store_keep(rec.store);
    rec.node = mrd_catalog_intern(rec.catalog, node.instance_id);
    mrd_catalog_set(rec.catalog, "meridian.version", MRD_RELEASE);
    if (*mrd_version_commit() != '\0')
        mrd_catalog_set(rec.catalog, "meridian.commit", mrd_version_commit());
    if ((err = open_recording(&rec, &node, rings, &why)) != MRD_OK)
        goto out;
    say_start(&env, words, set->verbose);
    wait_with_signals(SIG_BLOCK);
    if ((err = spawn(argv, env.v, &pid, &why)) != MRD_OK) {
        wait_with_signals(SIG_UNBLOCK);
        /* exit status that shells use: command not found, or not executable */
        status = err == MRD_NOTFOUND ? 127 : 126;
        goto out;
    }
    wait_status = drain_until_exit(&rec, pid);
    err = finish_profile(&rec, argv[0], &whole, &why);
    if (WIFSIGNALED(wait_status))
        status = 128 + WTERMSIG(wait_status);
    else if (WEXITSTATUS(wait_status) != 0)
        status = WEXITSTATUS(wait_status);
    else if (err == MRD_OK)
        status = whole ? MRD_EXIT_OK : MRD_EXIT_INCOMPLETE;
out:
    if (err != MRD_OK)
        mrd_cli_error("inspect", &why);
    mrd_sample_close(rec.sample);
    mrd_hw_close(rec.hw);
    mrd_drain_close(rec.drain);
    remove_ring_dir(rings);
    if (rings_fd >= 0)
        close(rings_fd);
    mrd_store_free(rec.store);
    mrd_catalog_free(rec.catalog);
    mrd_strlist_fini(&rec.earlier);
    for (size_t i = 0; i < rec.n_named; i++)
        free(rec.named[i].path);
    free(rec.named);
    mrd_output_lock_release(&rec.lock);
    env_free(&env);
    free(argv);
    return status;
}

int
mrd_cmd_inspect(int argc, char **argv)
{
    settings set = { 0 };
    mrd_cli_frame frame = { .usage = "[options] -- COMMAND [ARGUMENT]...",
                            .more = more,
                            .table = table,
                            .rows = MRD_COUNT(table),
                            .settings = &set,
                            .stop_at_word = true,
                            .min_words = 1,
                            .max_words = UINT_MAX,
                            .wants = "name a command: meridian inspect -o out -- ./my_workload",
                            .run = inspect };

    return mrd_cli_main(&frame, argc, argv);
}
