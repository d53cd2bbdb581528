/* agent/main.c - the program meridian-agent, which runs once on each node. Parses the options,
 * opens the agent, and runs its loop until a signal ends it. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/daemon/agent.h"
#include "agent/daemon/sample.h"
#include "base/conf/agent_waits.h"
#include "base/conf/conf.h"
#include "base/conf/log.h"
#include "base/conf/manual.h"
#include "base/obj.h"
#include "base/plain.h"
#include "base/sys/secret.h"
#include "base/sys/user.h"
#include "base/version.h"
#include "capture/ring/ring_read.h"
#include "meridian_commit.h" /* generated: scripts/commit.sh */

static const mrd_opt options[] = {
#define HEAD(text) { .type = MRD_OPT_HEAD, .help = text },
#define OPTION(name, letter, type, member, def, min, max, arg, env, help)                          \
    { name,                                                                                        \
      letter,                                                                                      \
      MRD_OPT_##type,                                                                              \
      offsetof(mrd_agent_options, member),                                                         \
      def,                                                                                         \
      min,                                                                                         \
      max,                                                                                         \
      arg,                                                                                         \
      env,                                                                                         \
      help,                                                                                        \
      NULL,                                                                                        \
      0 },
#include "agent/daemon/options.def"
#undef HEAD
#undef OPTION
};

static volatile sig_atomic_t ending, reloading;

static void
on_signal(int number)
{
    (void) number;
    ending++;
}

static void
on_hangup(int number)
{
    (void) number;
    reloading = 1;
}

static void
catch_signals(void)
{
    struct sigaction end = { .sa_handler = on_signal }, ignore = { .sa_handler = SIG_IGN },
                     hangup = { .sa_handler = on_hangup };

    (void) sigaction(SIGHUP, &hangup, NULL);
    (void) sigaction(SIGTERM, &end, NULL);
    (void) sigaction(SIGINT, &end, NULL);
    (void) sigaction(SIGPIPE, &ignore, NULL);
    /* a write beyond the limit of file sizes must fail with an error instead of ending the
     * process */
    (void) sigaction(SIGXFSZ, &ignore, NULL);
}

static int
fail(const mrd_why *why)
{
    mrd_plain_line(stderr, "meridian-agent", mrd_str_of(why->text));
    return 1;
}

/* Supports MERIDIAN_LOG, the name of MERIDIAN_LOG_LEVEL until release 0.1. If only the old name is
 * set, copies its value to the new name and returns true. */
static bool
has_old_name(void)
{
    const char *old = getenv("MERIDIAN_LOG");

    return old != NULL && *old != '\0' && getenv("MERIDIAN_LOG_LEVEL") == NULL &&
           setenv("MERIDIAN_LOG_LEVEL", old, 1) == 0;
}

/* Refuses a metrics port that other machines can reach, unless it has a token or --insecure is
 * given. */
static mrd_err
metrics_check(const mrd_agent_options *agent_options, mrd_why *why)
{
    const char *at = agent_options->metrics_address;

    if (agent_options->metrics_port <= 0 || agent_options->insecure ||
        agent_options->metrics_token_file != NULL || strncmp(at, "127.", 4) == 0 ||
        strcmp(at, "::1") == 0)
        return MRD_OK;
    return mrd_why_set(why, MRD_AUTH, 0,
                       "--metrics-address %s can be reached from other machines: give "
                       "--metrics-token-file, or --insecure",
                       at);
}

static void
say_backend(void *self, const char *name, bool present, const char *text)
{
    (void) self;
    printf("counters %-8s %s: %s\n", name, present ? "present" : "absent", text);
}

static void
say_limit(void *self, const char *message)
{
    (void) self;
    mrd_plain_line(stdout, "limited", mrd_str_of(message));
}

static int
check(mrd_agent_options *agent_options, const mrd_node_identity *node)
{
    mrd_hw_options ho = { .proc_root = agent_options->proc_root,
                          .sys_root = agent_options->sys_root,
                          .cgroup_root = agent_options->cgroup_root,
                          .monitor = agent_options->monitor };
    mrd_drain_tally counts;
    mrd_agent *agent = NULL;
    mrd_hw *hw = NULL;
    mrd_why why = { 0 };

    printf("node %s (from %s) host %s%s%s\n", node->instance_id, node->source, node->host_name,
           node->note[0] == '\0' ? "" : "; ", node->note);
    if (mrd_hw_open(&ho, &hw, &why) != MRD_OK)
        return fail(&why);
    mrd_hw_report(hw, say_backend, NULL);
    mrd_hw_close(hw);
    agent_options->spool_dir = NULL;
    agent_options->metrics_port = 0;
    if (mrd_agent_open(agent_options, node, NULL, &agent, &why) != MRD_OK)
        return fail(&why);
    for (int i = 0; i < 3; i++)
        mrd_agent_step(agent, 100);
    mrd_drain_counts(mrd_agent_borrow_drain(agent), &counts);
    printf("rings %llu of %llu process%s\n", (unsigned long long) counts.rings,
           (unsigned long long) counts.processes, counts.processes == 1 ? "" : "es");
    mrd_drain_say(mrd_agent_borrow_drain(agent), say_limit, NULL);
    mrd_agent_close(agent);
    return 0;
}

/* Switches the process to the given user. The threads of the connection and of the vendor's
 * library, which already run, drop all capabilities. This thread keeps the three that it needs to
 * read other users' rings and to search containers. */
static mrd_err
become(const mrd_user *user, const char *spool_dir, mrd_why *why)
{
    mrd_err err = spool_dir == NULL ? MRD_OK : mrd_user_hand_over(user, spool_dir, why);

    if (err == MRD_OK)
        err = mrd_user_become(
            user, MRD_RIGHT_LOOK_INTO | MRD_RIGHT_READ_OTHERS | MRD_RIGHT_UNLINK_OTHERS, why);
    mrd_drain_memory_goes_back();
    mrd_secret_process(); /* called again, because a change of user may have undone it */
    return err;
}

/* Returns true if the connection to the aggregator cannot work again until the agent is restarted
 * (mrd_link_stuck). */
static bool
cut_off(const mrd_agent *agent)
{
    mrd_agent_counts counts;

    if (mrd_link_stuck() < MRD_LINK_STUCK_NS)
        return false;
    mrd_agent_counters(agent, &counts);
    return !counts.connected;
}

/* Returns the exit code of the program. If threads of the transport cannot be stopped, ends the
 * process here instead of returning. */
static int
leave(int code)
{
    if (mrd_link_abandoned() == 0)
        return code;
    mrd_log(MRD_LOG_WARN, "AGT-LEFT",
            "Connections were not closed within 10 s and end with the process; all other work was "
            "finished: sockets=%u",
            mrd_link_abandoned());
    fflush(NULL);
    _exit(code);
}

static void
say_what_lacks(const mrd_agent_options *agent_options)
{
    const char *ring_dir =
        agent_options->ring_dir == NULL ? mrd_ring_dir() : agent_options->ring_dir;

    if (access(ring_dir, F_OK) != 0)
        mrd_log(MRD_LOG_WARN, "AGT-RINGS",
                "The ring directory does not exist yet; its rings are read once it does: dir=%s "
                "reason=%s",
                ring_dir, strerror(errno));
    if (agent_options->data_url == NULL)
        mrd_log(MRD_LOG_WARN, "AGT-ALONE",
                "No aggregator is given: what this node's processes record is read, counted and "
                "discarded. Give one with --aggregator (MERIDIAN_AGGREGATOR), or record one "
                "command without an agent: meridian inspect -- COMMAND");
}

static int
run(mrd_agent_options *agent_options, const mrd_node_identity *node)
{
    mrd_transport *transport = NULL;
    mrd_link_options link;
    mrd_agent *agent = NULL;
    bool lost = false;
    mrd_user user;
    mrd_why why = { 0 };
    char version[MRD_BUILD_TEXT];

    if (agent_options->user != NULL && mrd_user_find(agent_options->user, &user, &why) != MRD_OK)
        return fail(&why);
    if (metrics_check(agent_options, &why) != MRD_OK)
        return fail(&why);
    if (agent_options->data_url != NULL &&
        (mrd_agent_link_options(agent_options, &link, &why) != MRD_OK ||
         (mrd_agent_joins(agent_options) ? mrd_transport_link_later
                                         : mrd_transport_link)(&link, &transport, &why) != MRD_OK))
        return fail(&why);
    if (mrd_agent_open(agent_options, node, transport, &agent, &why) != MRD_OK)
        return fail(&why);
    if (agent_options->user != NULL && become(&user, agent_options->spool_dir, &why) != MRD_OK) {
        mrd_agent_close(agent);
        return fail(&why);
    }
    mrd_log(MRD_LOG_INFO, "AGT-START",
            "The agent started: node=%s from=%s aggregator=%s release=%s", node->instance_id,
            node->source, agent_options->data_url == NULL ? "none" : agent_options->data_url,
            mrd_version_text(version));
    say_what_lacks(agent_options);
    if (node->note[0] != '\0')
        mrd_log(MRD_LOG_INFO, "AGT-IMDS",
                "The instance metadata service did not return an instance id: reason=%s",
                node->note);
    while (!ending && !lost) {
        if (reloading) {
            reloading = 0;
            mrd_agent_reload(agent);
        }
        mrd_agent_step(agent, 1000);
        lost = transport != NULL && cut_off(agent);
    }
    if (lost)
        mrd_log(MRD_LOG_ERROR, "AGT-TRANSPORT",
                "The transport library hangs and will not connect again, so this process ends and "
                "has to be started again, as systemd and Kubernetes do: node=%s",
                node->instance_id);
    /* Tries for a short time to send recent events. The rest stays in the spool directory for the
     * next agent. */
    (void) mrd_agent_drain(agent, agent_options->spool_dir == NULL ? MRD_WAIT_END_UNSPOOLED
                                                                   : MRD_WAIT_END_SPOOLED);
    mrd_log(MRD_LOG_INFO, "AGT-END", "The agent ends: node=%s", node->instance_id);
    mrd_agent_close(agent);
    return leave(lost ? 1 : 0);
}

int
main(int argc, char **argv)
{
    static const mrd_manual manual = {
        .program = "meridian-agent",
        .what = "Collects what this node's processes record and sends it to the aggregator",
        .usage = "[options]",
        .more = MRD_OPT_ADVANCED_NOTE,
        .table = options,
        .rows = MRD_COUNT(options),
    };
    mrd_agent_options agent_options = { 0 };
    mrd_node_options who = { 0 };
    mrd_node_identity node;
    mrd_why why = { 0 };
    char version[MRD_BUILD_TEXT];
    bool old_name;
    int code;

    mrd_version_set_commit(MRD_COMMIT);
    (void) umask(077);
    /* disables core files, which would contain tokens and other users' events */
    mrd_secret_process();
    if (mrd_manual_asked(&manual, argc, argv, false, stdout))
        return mrd_manual_end("meridian-agent", 0);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--version") == 0) {
            printf("meridian-agent %s\n", mrd_version_text(version));
            return mrd_manual_end("meridian-agent", 0);
        }
    }
    old_name = has_old_name();
    if (mrd_conf_program(options, MRD_COUNT(options), &agent_options, argc, argv, &why) != MRD_OK) {
        (void) fail(&why);
        return 2;
    }
    mrd_log_init("meridian-agent", 2, (mrd_log_level) agent_options.log_level,
                 agent_options.log_json);
    if (old_name)
        mrd_log(MRD_LOG_WARN, "AGT-OLD-NAME",
                "The environment variable MERIDIAN_LOG is called MERIDIAN_LOG_LEVEL now; the next "
                "release will not read the old name: value=%s",
                getenv("MERIDIAN_LOG"));
    catch_signals();
    (void) mrd_link_raise_files();
    who.instance_id = agent_options.instance_id;
    who.proc_root = agent_options.proc_root;
    who.timeout = agent_options.imds ? 0 : -1;
    if (mrd_node_identify(&who, &node, &why) != MRD_OK)
        return fail(&why);
    code = agent_options.check ? check(&agent_options, &node) : run(&agent_options, &node);
    mrd_conf_fini(options, MRD_COUNT(options), &agent_options);
    return code;
}
