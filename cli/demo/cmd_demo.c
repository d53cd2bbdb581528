/* `meridian demo`: runs a cluster on this machine, records a session, and shows the results. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/num.h"
#include "base/obj.h"
#include "base/sys/out.h"
#include "cli/cli.h"
#include "cli/client/cluster.h"
#include "cli/demo/demo.h"
#include "cli/term/progress.h"

#define JOB            "demo"
#define ALIGN_PATIENCE (30 * MRD_SEC)
#define ORDER_SECONDS  "60" /* seconds of recording in which the barriers are checked */
/* A slow step takes this many times the median. Load alone causes at most 10 times. */
#define SLOW_STEP   12
#define SLOW_FACTOR "120" /* factor for the slow core; a much larger one would cause a hang */
/* maximum tries to cause a trigger; a node reports slow steps only once in 10 s */
#define SLOW_TRIES 4

typedef struct {
    int64_t nodes, cores;
    mrd_dur_ns duration, timeout;
    char *dir;
    bool keep, spaces, live;
} settings;

static const mrd_opt table[] = {
    { .name = "nodes",
      .letter = 'n',
      .type = MRD_OPT_INT,
      .offset = offsetof(settings, nodes),
      .def = "4",
      .min = 1,
      .max = DEMO_NODES_MAX,
      .arg = "N",
      .help = "simulated nodes, each with an agent and a rank of the job" },
    { .name = "cores",
      .type = MRD_OPT_INT,
      .offset = offsetof(settings, cores),
      .def = "2",
      .min = 1,
      .max = 64,
      .arg = "N",
      .help = "simulated NeuronCores of a node" },
    { .name = "duration",
      .letter = 'd',
      .type = MRD_OPT_DUR,
      .offset = offsetof(settings, duration),
      .def = "5s",
      .min = 100 * MRD_MS,
      .max = 3600 * MRD_SEC,
      .arg = "DURATION",
      .help = "how long is recorded" },
    { .name = "output-dir",
      .letter = 'o',
      .type = MRD_OPT_STR,
      .offset = offsetof(settings, dir),
      .def = "demo-out",
      .arg = "DIR",
      .help = "where the results go; those of an earlier run are replaced" },
    { .name = "namespaces",
      .type = MRD_OPT_BOOL,
      .offset = offsetof(settings, spaces),
      .def = "1",
      .help = "as root, give each node its own network (--no-namespaces: never)" },
    { .name = "live",
      .type = MRD_OPT_BOOL,
      .offset = offsetof(settings, live),
      .def = "1",
      .help = "show the verdicts about a slow and a stopped rank while the job runs (--no-live: "
              "leave this out)" },
    { .name = "keep",
      .type = MRD_OPT_BOOL,
      .offset = offsetof(settings, keep),
      .help =
          "at the end leave everything running, to look at the page, until Ctrl-C; and keep the "
          "store, the certificates and the logs" },
    { .name = "timeout",
      .type = MRD_OPT_DUR,
      .offset = offsetof(settings, timeout),
      .def = "60s",
      .min = MRD_SEC,
      .max = 3600 * MRD_SEC,
      .arg = "DURATION",
      .help = "longest wait for one step" },
};

/* The running cluster of the demo. While it starts, only a part of it exists. */
typedef struct {
    const settings *set;
    char work[64]; /* directory of all temporary files */
    char aggregator[PATH_MAX], agent[PATH_MAX], job[PATH_MAX]; /* paths of programs */
    char library[PATH_MAX], runtime[PATH_MAX]; /* library to preload; directory of libnrt */
    char clock[PATH_MAX];                      /* preloaded library that makes clocks wrong */
    char self[PATH_MAX], certs[96], slow[96];  /* slow: a core is slow while this file exists */
    char server[64], page[64], http_listen[64], data_url[64], control_url[64], rendezvous[64];
    uint16_t time_port;
    mrd_demo_nodes nodes;
    mrd_demo_programs programs;
    size_t daemons; /* number of programs in `programs` that precede the job's */
    mrd_client *client;
    char session[MRD_CLUSTER_ID], recorder[MRD_CLUSTER_ID];
    mrd_json *doc, *files, *window; /* `window` lists the files that the trigger saved */
    bool incomplete;                /* some part failed, and a message said which */
} demo;

/* ---- Finding the programs ---- */

static mrd_err
locate_all(demo *d, mrd_why *why)
{
    static const char *const aggregator[] = { "meridian-aggregator", NULL };
    static const char *const agent[] = { "meridian-agent", NULL };
    static const char *const job[] = { "train_loop", "../lib/meridian/train_loop", NULL };
    static const char *const library[] = { "../lib/libmeridian.so",
                                           "../" MRD_LIBDIR "/libmeridian.so.0", NULL };
    static const char *const runtime[] = { "../lib/simnrt", "../lib/meridian/simnrt", NULL };
    static const char *const clock[] = { "../lib/simnrt/libsimclock.so",
                                         "../lib/meridian/simnrt/libsimclock.so", NULL };
    static const char *const self[] = { "meridian", NULL };
    mrd_err err;

    if ((err = mrd_demo_locate("meridian", self, d->self, why)) != MRD_OK ||
        (err = mrd_demo_locate("meridian-aggregator", aggregator, d->aggregator, why)) != MRD_OK ||
        (err = mrd_demo_locate("meridian-agent", agent, d->agent, why)) != MRD_OK ||
        (err = mrd_demo_locate("the training job train_loop", job, d->job, why)) != MRD_OK ||
        (err = mrd_demo_locate("libmeridian.so", library, d->library, why)) != MRD_OK ||
        (err = mrd_demo_locate("the simulated clock libsimclock.so", clock, d->clock, why)) !=
            MRD_OK)
        return err;
    return mrd_demo_locate("the simulated runtime", runtime, d->runtime, why);
}

static mrd_err
addresses(demo *d, mrd_why *why)
{
    uint16_t data = 7770, control = 7771, http = 7780, job = 7790;

    d->time_port = 7772;
    if (!d->nodes.spaces) {
        data = mrd_demo_free_port(SOCK_STREAM);
        control = mrd_demo_free_port(SOCK_STREAM);
        http = mrd_demo_free_port(SOCK_STREAM);
        job = mrd_demo_free_port(SOCK_STREAM);
        d->time_port = mrd_demo_free_port(SOCK_DGRAM);
    }
    if (data == 0 || control == 0 || http == 0 || job == 0 || d->time_port == 0)
        return mrd_why_set(why, MRD_IO, errno, "no free port on 127.0.0.1");
    snprintf(d->data_url, sizeof(d->data_url), "tls+tcp://%s:%u", d->nodes.address, data);
    snprintf(d->control_url, sizeof(d->control_url), "tls+tcp://%s:%u", d->nodes.address, control);
    snprintf(d->server, sizeof(d->server), "https://127.0.0.1:%u", http);
    snprintf(d->http_listen, sizeof(d->http_listen), "%s:%u",
             d->nodes.spaces ? "0.0.0.0" : "127.0.0.1", http);
    if (d->nodes.outside[0] != '\0')
        snprintf(d->page, sizeof(d->page), "https://%s:%u/", d->nodes.outside, http);
    snprintf(d->rendezvous, sizeof(d->rendezvous), "%s:%u", d->nodes.v[0].address, job);
    return MRD_OK;
}

/* ---- Starting the cluster ---- */

static mrd_err
add_words(mrd_strlist *list, const char *const *words)
{
    mrd_err err = MRD_OK;

    for (; err == MRD_OK && *words != NULL; words++)
        err = mrd_strlist_add(list, mrd_str_of(*words));
    return err;
}

/* Starts the program words[0] on a node. NULL means the node of the aggregator. */
static mrd_err
start(demo *d, const mrd_demo_node *node, const char *name, const char *const *words,
      const char *const *settings_of, mrd_why *why)
{
    mrd_strlist argv = { 0 }, env = { 0 };
    char log[PATH_MAX + 64];
    mrd_err err = MRD_OK;

    snprintf(log, sizeof(log), "%s/%s.log", node == NULL ? d->work : node->dir, name);
    if (node != NULL)
        err = mrd_demo_node_prefix(node, &argv);
    if (err == MRD_OK)
        err = add_words(&argv, words);
    if (err == MRD_OK)
        err = add_words(&env, settings_of);
    if (err != MRD_OK)
        mrd_why_set(why, err, 0, "starting %s", name);
    else
        err = mrd_demo_start(&d->programs, name, log, &argv, &env, why);
    mrd_strlist_fini(&argv);
    mrd_strlist_fini(&env);
    return err;
}

/* Makes certificates as a user would: `meridian certs init`, then one with a token per node. */
static mrd_err
make_certs(demo *d, mrd_why *why)
{
    char hosts[80];
    const char *init[] = { d->self, "certs", "init", "--dir", d->certs, "--host", hosts, NULL };
    mrd_err err;

    snprintf(d->certs, sizeof(d->certs), "%s/certs", d->work);
    snprintf(hosts, sizeof(hosts), "%s%s%s", d->nodes.address,
             d->nodes.outside[0] == '\0' ? "" : ",", d->nodes.outside);
    err = mrd_demo_run(why, init);
    for (size_t i = 0; i < d->nodes.n && err == MRD_OK; i++) {
        const char *agent[] = {
            d->self, "certs", "agent", "--dir", d->certs, d->nodes.v[i].id, NULL
        };

        err = mrd_demo_run(why, agent);
    }
    return err;
}

static char *
in_certs(const demo *d, const char *file, char path[160])
{
    snprintf(path, 160, "%s/%s", d->certs, file);
    return path;
}

static mrd_err
start_aggregator(demo *d, mrd_why *why)
{
    char store[128], time_port[16], ca[160], cert[160], key[160], tokens[160];
    const char *words[] = { d->aggregator,
                            "--store",
                            store,
                            "--data-listen",
                            d->data_url,
                            "--control-listen",
                            d->control_url,
                            "--http-listen",
                            d->http_listen,
                            "--time-port",
                            time_port,
                            "--disk-reserve",
                            "64M",
                            "--tls-ca",
                            in_certs(d, "ca.pem", ca),
                            "--tls-cert",
                            in_certs(d, "aggregator.pem", cert),
                            "--tls-key",
                            in_certs(d, "aggregator.key", key),
                            "--http-cert",
                            cert,
                            "--http-key",
                            key,
                            "--tokens",
                            in_certs(d, "tokens.json", tokens),
                            NULL };
    const char *none[] = { NULL };

    snprintf(store, sizeof(store), "%s/store", d->work);
    snprintf(time_port, sizeof(time_port), "%u", d->time_port);
    return start(d, NULL, "aggregator", words, none, why);
}

static mrd_err
start_agent(demo *d, const mrd_demo_node *node, mrd_why *why)
{
    char spool[PATH_MAX + 8], preload[PATH_MAX + 64], ca[160], cert[160], key[160], token[160];
    char file[64];
    const char *words[] = { d->agent,
                            "--aggregator",
                            d->data_url,
                            "--control",
                            d->control_url,
                            "--instance-id",
                            node->id,
                            "--ring-dir",
                            node->rings,
                            "--spool-dir",
                            spool,
                            "--advanced.simulated",
                            "--no-imds",
                            "--no-containers",
                            "--tls-ca",
                            ca,
                            "--tls-cert",
                            cert,
                            "--tls-key",
                            key,
                            "--token-file",
                            token,
                            NULL };
    const char *const set[] = { node->setting, preload, NULL };

    snprintf(spool, sizeof(spool), "%s/spool", node->dir);
    snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", d->clock);
    in_certs(d, "ca.pem", ca);
    snprintf(file, sizeof(file), "agent-%s.token", node->id);
    in_certs(d, file, token);
    snprintf(file, sizeof(file), "agent-%s.pem", node->id);
    in_certs(d, file, cert);
    snprintf(file, sizeof(file), "agent-%s.key", node->id);
    in_certs(d, file, key);
    return start(d, node, "agent", words, set, why);
}

/* Starts one rank per node. A core of the second node is always slower than the others. A core of
 * the last node is slow while d->slow exists. */
static mrd_err
start_rank(demo *d, size_t i, mrd_why *why)
{
    const mrd_demo_node *node = &d->nodes.v[i];
    char cores[16], slow[32], rank[32], world[32], fault[160], env[6][2 * PATH_MAX + 64];
    const char *words[] = { d->job,      "--steps", "100000000",   "--cores", cores,
                            "--exec-us", "8000",    "--straggler", slow,      "--checkpoint-dir",
                            node->dir,   "--quiet", NULL };
    const char *const set[] = { rank,
                                world,
                                "MERIDIAN_ENABLE=1",
                                "MERIDIAN_CLOCK=raw",
                                node->setting,
                                fault,
                                env[0],
                                env[1],
                                env[2],
                                env[3],
                                env[4],
                                env[5],
                                NULL };

    snprintf(cores, sizeof(cores), "%" PRId64, d->set->cores);
    snprintf(slow, sizeof(slow), "%" PRId64 ":2", d->nodes.n > 1 ? d->set->cores : 0);
    snprintf(rank, sizeof(rank), "RANK=%zu", i);
    snprintf(world, sizeof(world), "WORLD_SIZE=%zu", d->nodes.n);
    snprintf(env[0], sizeof(env[0]), "MERIDIAN_RING_DIR=%s", node->rings);
    snprintf(env[1], sizeof(env[1]), "NEURON_RT_ROOT_COMM_ID=%s", d->rendezvous);
    snprintf(env[2], sizeof(env[2]), "SIMNRT_NODE=%s", node->id);
    snprintf(env[3], sizeof(env[3]), "LD_LIBRARY_PATH=%s", d->runtime);
    snprintf(env[4], sizeof(env[4]), "LD_PRELOAD=%s:%s", d->clock, d->library);
    snprintf(env[5], sizeof(env[5]), "MERIDIAN_JOB=" JOB);
    snprintf(d->slow, sizeof(d->slow), "%s/slow", d->work);
    if (i + 1 == d->nodes.n)
        snprintf(fault, sizeof(fault),
                 "SIMNRT_FAULT=slow_core:core=0:factor=" SLOW_FACTOR ":file=%s", d->slow);
    else
        snprintf(fault, sizeof(fault), "SIMNRT_FAULT=");
    return start(d, node, "rank", words, set, why);
}

/* ---- Waiting ---- */

/* Returns an error after an interruption or the end of a program. Each wait calls this function. */
static mrd_err
look_around(demo *d, mrd_why *why)
{
    const mrd_demo_program *dead = mrd_demo_ended(&d->programs);

    if (mrd_cluster_interrupted())
        return mrd_why_set(why, MRD_CANCELLED, 0, "interrupted");
    if (dead == NULL)
        return MRD_OK;
    mrd_demo_show_log(dead);
    return mrd_why_set(why, MRD_CLOSED, 0, "%s ended unexpectedly (status %d); its log is above",
                       dead->name, dead->status);
}

typedef bool wait_for(demo *d);

static mrd_err
wait_until(demo *d, wait_for *what, const char *message, mrd_why *why)
{
    mrd_local_ns until = mrd_local_add(mrd_local_now(), d->set->timeout);
    mrd_err err;

    while ((err = look_around(d, why)) == MRD_OK && !what(d)) {
        if (mrd_local_after(mrd_local_now(), until))
            return mrd_why_set(why, MRD_TIMEOUT, 0, "%s (--timeout); logs are in %s", message,
                               d->work);
        mrd_cluster_sleep(50 * MRD_MS);
    }
    return err;
}

static size_t
count_nodes(demo *d, bool (*is)(const mrd_json *node))
{
    mrd_json *doc = NULL;
    size_t n = 0;

    if (mrd_client_call(d->client, "GET", "/api/v1/nodes", NULL, &doc, NULL) != MRD_OK)
        return 0;
    for (size_t i = 0; i < mrd_json_size(mrd_json_get(doc, "nodes")); i++)
        n += is(mrd_json_at(mrd_json_get(doc, "nodes"), i));
    mrd_json_free(doc);
    return n;
}

static bool
is_connected(const mrd_json *node)
{
    return mrd_json_bool(node, "connected", false);
}

static bool
has_rings(const mrd_json *node)
{
    return mrd_json_int(node, "rings", 0) > 0;
}

static bool
is_aligned(const mrd_json *node)
{
    const char *state = mrd_json_str(mrd_json_get(node, "clock"), "state", "");

    return strcmp(state, "good") == 0 || strcmp(state, "settling") == 0;
}

static bool
all_connected(demo *d)
{
    return count_nodes(d, is_connected) == d->nodes.n;
}

static bool
all_working(demo *d)
{
    return count_nodes(d, has_rings) == d->nodes.n;
}

/* Waits until the clock estimate of each node has a bound. This takes about 1 s. */
static mrd_err
wait_for_clocks(demo *d, mrd_why *why)
{
    mrd_local_ns until = mrd_local_add(mrd_local_now(), ALIGN_PATIENCE);
    mrd_err err;
    size_t n;

    while ((err = look_around(d, why)) == MRD_OK && (n = count_nodes(d, is_aligned)) < d->nodes.n &&
           mrd_local_before(mrd_local_now(), until))
        mrd_cluster_sleep(100 * MRD_MS);
    if (err == MRD_OK)
        printf("clocks      known by probes on %zu of %zu nodes\n", n, d->nodes.n);
    return err;
}

static bool
is_up(demo *d)
{
    return mrd_client_call(d->client, "GET", "/api/v1/sessions", NULL, NULL, NULL) == MRD_OK;
}

/* ---- Messages about each step ---- */

static void
say_plan(const demo *d)
{
    printf("SIMULATED: no accelerator takes part in this. A training loop runs on a simulated "
           "Neuron\nruntime; its times say nothing about real hardware. Collection, clocks, "
           "journal and merge are real.\n\n");
    if (d->nodes.spaces)
        printf("nodes       %zu, each in its own network namespace\n", d->nodes.n);
    else
        printf("nodes       %zu, as folders on this machine's loopback address (no network "
               "namespaces: %s)\n",
               d->nodes.n, d->nodes.note);
    printf("clocks      wrong on purpose; the wall clock of the last node jumps by an hour while "
           "the session records\n");
    fflush(stdout);
}

static mrd_err
bring_up(demo *d, mrd_why *why)
{
    char token[160], ca[160];
    mrd_client_options options = { .server = d->server,
                                   .token_file = in_certs(d, "control.token", token),
                                   .ca_file = in_certs(d, "ca.pem", ca),
                                   .timeout = 10 * MRD_SEC };
    mrd_err err;

    setenv("no_proxy", "127.0.0.1", 1);
    if ((err = mrd_client_open(&options, &d->client, why)) != MRD_OK ||
        (err = start_aggregator(d, why)) != MRD_OK ||
        (err = wait_until(d, is_up, "the aggregator does not answer", why)) != MRD_OK)
        return err;
    printf("aggregator  page and API %s, agents at %s, certificates by `meridian certs`\n",
           d->page[0] == '\0' ? d->server : d->page, d->data_url);
    fflush(stdout);
    for (size_t i = 0; err == MRD_OK && i < d->nodes.n; i++)
        err = start_agent(d, &d->nodes.v[i], why);
    if (err == MRD_OK)
        err = wait_until(d, all_connected, "not all agents have connected", why);
    d->daemons = d->programs.n;
    for (size_t i = 0; err == MRD_OK && i < d->nodes.n; i++)
        err = start_rank(d, i, why);
    if (err == MRD_OK)
        err = wait_until(d, all_working, "not all ranks of the job have begun", why);
    if (err == MRD_OK)
        printf("job         train_loop, %zu rank%s with %" PRId64
               " cores each; core 0 of %s takes twice as long\n",
               d->nodes.n, mrd_plural(d->nodes.n), d->set->cores, d->nodes.v[d->nodes.n > 1].id);
    fflush(stdout);
    return err;
}

/* Starts the flight recorder before the session, because any recording measures clocks often. */
static mrd_err
start_recorder(demo *d, mrd_why *why)
{
    char name[] = "flight recorder", require[] = "all";
    mrd_session_request request = { .params = { .name = name, .require = require } };
    mrd_json *doc = NULL;
    mrd_err err;

    mrd_session_params_init_numbers(&request.params);
    request.params.mode = MRD_MODE_RECORDER;
    request.params.recorder_ns = 10 * MRD_SEC;
    request.params.recorder_bytes = 32 << 20;
    request.params.slow_step_percent = SLOW_STEP * 100;
    request.params.merge = false;
    err = mrd_cluster_start(d->client, &request, d->set->timeout, d->recorder, &doc, why);
    mrd_json_free(doc);
    return err;
}

/* ---- The session ---- */

typedef struct {
    demo *d;
    mrd_progress line;
    mrd_why died;
} watching;

static bool
session_over(void *self, const mrd_json *doc)
{
    watching *w = self;

    mrd_progress_show(&w->line, (uint64_t) mrd_json_int(doc, "events", 0), 0, "events",
                      mrd_json_str(doc, "state", ""));
    return mrd_cluster_in(doc, "complete|failed") || look_around(w->d, &w->died) != MRD_OK;
}

/* Waits, so that the last node's wall clock jumps in the middle of the session. */
static mrd_err
wait_for_step(demo *d, mrd_why *why)
{
    mrd_local_ns from = mrd_local_sub(d->nodes.step, d->set->duration / 2);
    mrd_err err;

    while ((err = look_around(d, why)) == MRD_OK && mrd_local_before(mrd_local_now(), from))
        mrd_cluster_sleep(50 * MRD_MS);
    if (mrd_local_after(mrd_local_now(), d->nodes.step)) {
        printf("            (slow here: the wall clock has jumped before the recording begins)\n");
        d->incomplete = true;
    }
    return err;
}

static mrd_err
record(demo *d, mrd_why *why)
{
    char name[] = "demonstration", require[] = "all", text[MRD_DUR_TEXT];
    mrd_session_request request = { .params = { .name = name, .require = require } };
    watching w = { .d = d };
    mrd_err err;

    mrd_session_params_init_numbers(&request.params);
    request.params.duration = d->set->duration;
    err = mrd_cluster_start(d->client, &request, d->set->timeout, d->session, &d->doc, why);
    if (err != MRD_OK)
        return err;
    printf("session     %s, %s\n", d->session, mrd_dur_text(d->set->duration, text));
    fflush(stdout);
    mrd_progress_start(&w.line, "recording");
    err = mrd_cluster_wait(d->client, d->session, d->set->duration + d->set->timeout, 10 * MRD_SEC,
                           session_over, &w, &d->doc, why);
    mrd_progress_end(&w.line);
    if (err == MRD_OK && w.died.err != MRD_OK) {
        *why = w.died;
        err = w.died.err;
    }
    if (err == MRD_OK && mrd_cluster_in(d->doc, "failed"))
        err = mrd_why_set(why, MRD_STATE, 0, "the session failed: %s",
                          mrd_json_str(d->doc, "message", "no reason given"));
    return err;
}

static mrd_err
get_files(demo *d, mrd_why *why)
{
    static const char *const formats[] = { "perfetto", "summary-text", "summary-json",
                                           "report-text", NULL };
    mrd_fetch_options fetch = { .dir = d->set->dir, .force = true, .split = MRD_SINK_SPLIT_BYTES };
    mrd_buf text = { 0 }, path = { 0 };
    mrd_err err = add_words(&fetch.formats, formats);

    if (err == MRD_OK)
        err = mrd_cluster_fetch(d->client, d->session, &fetch, d->files, why);
    mrd_buf_fmt(&path, "%s/session.json", d->set->dir);
    mrd_json_write(d->doc, true, &text);
    if (err == MRD_OK && (err = text.err) == MRD_OK)
        err = mrd_write_file(mrd_buf_cstr(&path), (mrd_bytes){ text.p, text.len }, 0666, why);
    mrd_strlist_fini(&fetch.formats);
    mrd_buf_fini(&text);
    mrd_buf_fini(&path);
    return err;
}

/* ---- The flight recorder ---- */

/* Returns a copy of the first trigger that all nodes answered, if the saved time ends after the
 * session time `after`. Returns NULL if there is no such trigger yet. */
static mrd_json *
find_trigger(demo *d, int64_t after)
{
    mrd_json *doc = NULL, *found = NULL;
    const mrd_json *list;

    if (mrd_cluster_call(d->client, "GET", d->recorder, "", NULL, &doc, NULL) != MRD_OK)
        return NULL;
    list = mrd_json_get(doc, "triggers");
    for (size_t i = 0; found == NULL && i < mrd_json_size(list); i++) {
        const mrd_json *t = mrd_json_at(list, i);

        if (mrd_json_int(t, "to_ns", 0) >= after &&
            mrd_json_int(t, "answered", 0) >= (int64_t) d->nodes.n)
            found = mrd_json_copy(t);
    }
    mrd_json_free(doc);
    return found;
}

/* Makes one core slow for some steps, up to SLOW_TRIES times, until the flight recorders trigger.
 * The caller owns *ret_trigger. It is NULL if nothing triggered. */
static mrd_err
slow_down(demo *d, mrd_json **ret_trigger, mrd_why *why)
{
    /* a slow step takes longer than this, so an earlier trigger has another cause */
    const mrd_dur_ns least = 600 * MRD_MS;
    mrd_err err = MRD_OK;

    *ret_trigger = NULL;
    for (int i = 0; i < SLOW_TRIES && err == MRD_OK && *ret_trigger == NULL; i++) {
        int64_t begun = mrd_local_now().ns, after = mrd_wall_now().ns + least;
        bool slow = true;

        if ((err = mrd_write_file(d->slow, (mrd_bytes){ NULL, 0 }, 0600, why)) != MRD_OK)
            break;
        while ((err = look_around(d, why)) == MRD_OK &&
               (*ret_trigger = find_trigger(d, after)) == NULL &&
               mrd_local_now().ns - begun < 12 * MRD_SEC) {
            if (slow && mrd_local_now().ns - begun > 2 * MRD_SEC)
                slow = unlink(d->slow) != 0;
            mrd_cluster_sleep(100 * MRD_MS);
        }
        (void) unlink(d->slow);
    }
    return err;
}

/* Fetches the time range that all nodes saved for the trigger. */
static mrd_err
fetch_window(demo *d, const mrd_json *t, mrd_why *why)
{
    mrd_fetch_options fetch = { .force = true, .split = MRD_SINK_SPLIT_BYTES };
    char start_ns[24], end_ns[24];
    mrd_buf dir = { 0 };
    mrd_err err;

    snprintf(start_ns, sizeof(start_ns), "%" PRId64, mrd_json_int(t, "from_ns", 0));
    snprintf(end_ns, sizeof(end_ns), "%" PRId64, mrd_json_int(t, "to_ns", 0));
    mrd_buf_fmt(&dir, "%s/trigger", d->set->dir);
    fetch.dir = mrd_str_dup(mrd_str_of(mrd_buf_cstr(&dir)));
    fetch.start = start_ns;
    fetch.end = end_ns;
    if ((err = mrd_strlist_add(&fetch.formats, MRD_STR("perfetto"))) == MRD_OK)
        err = mrd_cluster_fetch(d->client, d->recorder, &fetch, d->window, why);
    free(fetch.dir);
    mrd_strlist_fini(&fetch.formats);
    mrd_buf_fini(&dir);
    return err;
}

/* Makes one core slow, which triggers the flight recorders. Fetches what they saved. */
static mrd_err
trigger(demo *d, mrd_why *why)
{
    mrd_json *t = NULL, *doc = NULL;
    char text[MRD_DUR_TEXT];
    mrd_err err;

    printf("recorder    %s; one core of the last node is slowed " SLOW_FACTOR " times for a "
           "moment\n",
           d->recorder);
    fflush(stdout);
    if ((err = slow_down(d, &t, why)) == MRD_OK)
        err = mrd_cluster_call(d->client, "POST", d->recorder, "/stop", NULL, NULL, why);
    if (err == MRD_OK)
        err = mrd_cluster_finish(d->client, d->recorder, d->set->timeout, 10 * MRD_SEC, &doc, why);
    if (err == MRD_OK && t == NULL) {
        printf("trigger     none: not every node reported a step %d x slower than its median; the "
               "machine is too busy, try again\n",
               SLOW_STEP);
        d->incomplete = true;
    } else if (err == MRD_OK && (err = fetch_window(d, t, why)) == MRD_OK) {
        printf("trigger     %" PRId64 " node%s kept the same %s, because: ",
               mrd_json_int(t, "answered", 0),
               mrd_plural((uint64_t) mrd_json_int(t, "answered", 0)),
               mrd_dur_text(mrd_sat_sub(mrd_json_int(t, "to_ns", 0), mrd_json_int(t, "from_ns", 0)),
                            text));
        mrd_cluster_say(stdout, mrd_json_str(t, "reason", "?"));
    }
    mrd_json_free(t);
    mrd_json_free(doc);
    return err;
}

/* ---- The whole demo ---- */

static mrd_err
look(void *self, mrd_why *why)
{
    return look_around(self, why);
}

/* Shows verdicts about the running job. The watch for slow ranks needs at least four ranks, and the
 * hang watch at least two. */
static mrd_err
show_live(demo *d, mrd_why *why)
{
    mrd_demo_live live = { .client = d->client,
                           .job = JOB,
                           .slow_rank = d->nodes.n > 3 ? 1 : -1,
                           .stopped_rank = d->nodes.n > 1 ? (int64_t) d->nodes.n - 1 : -1,
                           .timeout = d->set->timeout,
                           .look = look,
                           .self = d };
    bool whole = true;
    mrd_err err = MRD_OK;

    if (d->set->live && d->nodes.n > 1)
        err = mrd_demo_show_live(&live, &whole, why);
    d->incomplete = d->incomplete || !whole;
    return err;
}

/* Fetches a profile that has only barriers, to check the order in which participants left them. */
static mrd_err
get_barriers(demo *d, mrd_why *why)
{
    char path[160], to[96];

    snprintf(path, sizeof(path),
             "/api/v1/sessions/%s/profile?format=json&event_type=cc_exec_barrier"
             "&end=" ORDER_SECONDS "s",
             d->session);
    snprintf(to, sizeof(to), "%s/barriers.json", d->work);
    return mrd_client_download(d->client, path, to, NULL, NULL, NULL, why);
}

static bool
report(demo *d)
{
    char summary[PATH_MAX], verdict[PATH_MAX], store[96], barriers[96];
    bool holds;

    snprintf(summary, sizeof(summary), "%s/summary.txt", d->set->dir);
    snprintf(verdict, sizeof(verdict), "%s/report.txt", d->set->dir);
    snprintf(store, sizeof(store), "%s/store", d->work);
    snprintf(barriers, sizeof(barriers), "%s/barriers.json", d->work);
    mrd_demo_print_head(summary);
    mrd_demo_print_head(verdict);
    holds = mrd_demo_print_accounting(&d->nodes, d->doc);
    holds = mrd_demo_print_clocks(&d->nodes, store, d->doc) && holds;
    holds = mrd_demo_print_order(&d->nodes, (size_t) d->set->cores, store, barriers) && holds;
    printf("\nThe session\n");
    mrd_cluster_print_files(d->files, stdout);
    if (mrd_json_size(d->window) > 0) {
        printf("\nWhat the flight recorders kept\n");
        mrd_cluster_print_files(d->window, stdout);
    }
    printf("\nEverything above is SIMULATED.\n");
    return mrd_cluster_whole(d->doc, "demo") && holds;
}

static mrd_err
run(demo *d, int *ret_status, mrd_why *why)
{
    mrd_err err;

    if ((err = locate_all(d, why)) != MRD_OK ||
        (err = mrd_demo_nodes_open(&d->nodes, (size_t) d->set->nodes, d->work, d->set->spaces,
                                   why)) != MRD_OK ||
        (err = addresses(d, why)) != MRD_OK || (err = make_certs(d, why)) != MRD_OK)
        return err;
    say_plan(d);
    if ((err = bring_up(d, why)) != MRD_OK || (err = start_recorder(d, why)) != MRD_OK ||
        (err = wait_for_clocks(d, why)) != MRD_OK || (err = wait_for_step(d, why)) != MRD_OK ||
        (err = record(d, why)) != MRD_OK || (err = get_files(d, why)) != MRD_OK ||
        (err = get_barriers(d, why)) != MRD_OK || (err = show_live(d, why)) != MRD_OK ||
        (err = trigger(d, why)) != MRD_OK)
        return err;
    if (!d->set->keep)
        /* ends the job, because it would use CPU time while the user looks at the results */
        mrd_demo_end(&d->programs, d->daemons, MRD_SEC);
    if (!report(d) || d->incomplete)
        *ret_status = MRD_EXIT_INCOMPLETE;
    if (d->page[0] == '\0')
        printf(
            "\nThe page was at %s inside the namespace %s: this machine's own network could not be "
            "wired to it\n",
            d->server, d->nodes.home);
    else
        mrd_demo_print_page(d->page, d->certs, d->set->keep);
    if (d->set->keep)
        printf("The results, also while this runs: %s\nThe store, the certificates and the logs: "
               "%s\nCtrl-C ends everything\n",
               d->set->dir, d->work);
    fflush(stdout);
    while (d->set->keep && err == MRD_OK)
        if ((err = look_around(d, why)) == MRD_OK)
            mrd_cluster_sleep(200 * MRD_MS);
    if (err == MRD_CANCELLED)
        *why = (mrd_why){ 0 }; /* the user ended the demo, so this is no error */
    return err == MRD_CANCELLED ? MRD_OK : err;
}

static void
finish(demo *d, bool keep)
{
    /* an interruption during cleanup would leave programs or namespaces behind */
    (void) signal(SIGINT, SIG_IGN);
    (void) signal(SIGTERM, SIG_IGN);
    (void) signal(SIGHUP, SIG_IGN);
    mrd_client_close(d->client);
    mrd_demo_end(&d->programs, d->daemons > 0 ? d->daemons : 0, MRD_SEC);
    mrd_demo_end(&d->programs, 0, 3 * MRD_SEC);
    mrd_demo_nodes_close(&d->nodes);
    mrd_json_free(d->doc);
    mrd_json_free(d->files);
    mrd_json_free(d->window);
    if (keep)
        printf("store, certificates and logs: %s (yours to remove)\n", d->work);
    else
        mrd_remove_tree(d->work);
}

static int
run_demo(void *self, const mrd_strlist *words)
{
    const char *tmp = getenv("TMPDIR");
    demo *d = calloc(1, sizeof(*d));
    int status = MRD_EXIT_OK;
    mrd_why why = { 0 };

    (void) words;
    if (d == NULL) {
        fprintf(stderr, "meridian demo: no memory\n");
        return MRD_EXIT_FAILED;
    }
    d->set = self;
    snprintf(d->work, sizeof(d->work), "%.40s/meridian-demo-XXXXXX",
             tmp == NULL || strlen(tmp) > 40 ? "/tmp" : tmp);
    if (mkdtemp(d->work) == NULL) {
        mrd_why_set(&why, MRD_IO, errno, "cannot make %s", d->work);
    } else {
        d->files = mrd_json_new_array();
        d->window = mrd_json_new_array();
        mrd_cluster_catch_all();
        (void) run(d, &status, &why);
        finish(d, d->set->keep || (why.err != MRD_OK && why.err != MRD_CANCELLED));
    }
    if (why.err != MRD_OK) {
        mrd_cli_error("demo", &why);
        status = MRD_EXIT_FAILED;
    }
    free(d);
    return status;
}

int
mrd_cmd_demo(int argc, char **argv)
{
    settings set = { 0 };
    mrd_cli_frame frame = { .usage = "[--nodes N] [options]",
                            .table = table,
                            .rows = MRD_COUNT(table),
                            .settings = &set,
                            .run = run_demo };

    return mrd_cli_main(&frame, argc, argv);
}
