/* The nodes of `meridian demo`: network namespaces with one bridge, clocks with a known error,
 * directories. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/obj.h"
#include "cli/demo/demo.h"

#define NETWORK "10.91.7" /* first three bytes of addresses, used inside the namespaces only */

/* Runs "ip" with the given words. */
#define IP(why, ...) mrd_demo_run((why), (const char *const[]){ "ip", __VA_ARGS__, NULL })

/* ---- Network ---- */

/* Connects the aggregator's namespace with this machine's own network by link-local addresses, so
 * that the user's browser reaches the aggregator. The connection disappears with the namespace. */
static void
outside_open(mrd_demo_nodes *nodes)
{
    unsigned own = (unsigned) getpid() % (200 * 63), net = own / 63 + 32, host = own % 63 * 4;
    char link[16], here[32], there[32], address[24];

    snprintf(link, sizeof(link), "mrd%d", (int) getpid());
    snprintf(here, sizeof(here), "169.254.%u.%u/30", net, host + 1);
    snprintf(address, sizeof(address), "169.254.%u.%u", net, host + 2);
    snprintf(there, sizeof(there), "%s/30", address);
    if (IP(NULL, "link", "add", link, "type", "veth", "peer", "name", "outside", "netns",
           nodes->home) == MRD_OK &&
        IP(NULL, "addr", "add", here, "dev", link) == MRD_OK &&
        IP(NULL, "link", "set", link, "up") == MRD_OK &&
        IP(NULL, "-n", nodes->home, "addr", "add", there, "dev", "outside") == MRD_OK &&
        IP(NULL, "-n", nodes->home, "link", "set", "outside", "up") == MRD_OK)
        snprintf(nodes->outside, sizeof(nodes->outside), "%s", address);
}

static mrd_err
hub_open(mrd_demo_nodes *nodes, mrd_why *why)
{
    char path[64];
    mrd_err err = MRD_OK;
    int fd = -1;

    snprintf(nodes->home, sizeof(nodes->home), "mrd%d-home", (int) getpid());
    if ((err = IP(why, "netns", "add", nodes->home)) != MRD_OK) {
        nodes->home[0] = '\0';
        return err;
    }
    if ((err = IP(why, "-n", nodes->home, "link", "set", "lo", "up")) != MRD_OK ||
        (err = IP(why, "-n", nodes->home, "link", "add", "br0", "type", "bridge")) != MRD_OK ||
        (err = IP(why, "-n", nodes->home, "addr", "add", NETWORK ".1/24", "dev", "br0")) !=
            MRD_OK ||
        (err = IP(why, "-n", nodes->home, "link", "set", "br0", "up")) != MRD_OK)
        return err;
    outside_open(nodes);
    snprintf(path, sizeof(path), "/run/netns/%s", nodes->home);
    if ((fd = open(path, O_RDONLY | O_CLOEXEC)) < 0 || setns(fd, CLONE_NEWNET) != 0)
        err = mrd_why_set(why, MRD_IO, errno, "cannot enter the network namespace %s", path);
    if (fd >= 0)
        close(fd);
    return err;
}

static mrd_err
wire(const mrd_demo_nodes *nodes, mrd_demo_node *node, size_t i, mrd_why *why)
{
    char inside[32], address[48];
    mrd_err err;

    snprintf(node->space, sizeof(node->space), "mrd%d-%zu", (int) getpid(), i + 1);
    if ((err = IP(why, "netns", "add", node->space)) != MRD_OK) {
        node->space[0] = '\0';
        return err;
    }
    snprintf(inside, sizeof(inside), "v%zu", i + 1);
    snprintf(node->address, sizeof(node->address), NETWORK ".%zu", i + 10);
    snprintf(address, sizeof(address), "%s/24", node->address);
    if ((err = IP(why, "-n", nodes->home, "link", "add", inside, "type", "veth", "peer", "name",
                  "eth0", "netns", node->space)) != MRD_OK ||
        (err = IP(why, "-n", nodes->home, "link", "set", inside, "master", "br0", "up")) !=
            MRD_OK ||
        (err = IP(why, "-n", node->space, "addr", "add", address, "dev", "eth0")) != MRD_OK ||
        (err = IP(why, "-n", node->space, "link", "set", "lo", "up")) != MRD_OK)
        return err;
    return IP(why, "-n", node->space, "link", "set", "eth0", "up");
}

static mrd_err
network_open(mrd_demo_nodes *nodes, mrd_why *why)
{
    mrd_err err = hub_open(nodes, why);

    for (size_t i = 0; err == MRD_OK && i < nodes->n; i++)
        err = wire(nodes, &nodes->v[i], i, why);
    return err;
}

static void
network_close(mrd_demo_nodes *nodes)
{
    for (size_t i = 0; i < nodes->n; i++) {
        if (nodes->v[i].space[0] != '\0')
            (void) IP(NULL, "netns", "del", nodes->v[i].space);
        nodes->v[i].space[0] = '\0';
    }
    if (nodes->home[0] != '\0')
        (void) IP(NULL, "netns", "del", nodes->home);
    nodes->home[0] = '\0';
}

/* ---- Clocks ---- */

#define STEP_AFTER (15 * MRD_SEC)

/* Clock errors of the nodes. They are typical of a poor oscillator: its rate changes by 20 to 40
 * ppb per second. */
static const struct {
    int64_t offset_ms;
    const char *ppm, *wander;
} errors[] = {
    { 43, "5", "3us/60s" },
    { -871, "-42", "2us/45s" },
    { 17 * 60000, "200", "4us/90s" },
    { 3 * 3600000, "-450", "3us/75s" },
};

/* Sets the clock errors of the nodes. The wall clock of the last node jumps during the session. */
static mrd_err
clocks_open(mrd_demo_nodes *nodes, mrd_why *why)
{
    mrd_err err = MRD_OK;

    nodes->epoch = mrd_local_now();
    nodes->step = mrd_local_add(nodes->epoch, STEP_AFTER);
    for (size_t i = 0; i < nodes->n && err == MRD_OK; i++) {
        mrd_demo_node *node = &nodes->v[i];
        size_t e = i % MRD_COUNT(errors);

        snprintf(node->error, sizeof(node->error), "offset=%lldms,ppm=%s,wander=%s%s",
                 (long long) (errors[e].offset_ms + 137 * (int64_t) (i / MRD_COUNT(errors))),
                 errors[e].ppm, errors[e].wander, i + 1 == nodes->n ? ",wallstep=1h@15s" : "");
        snprintf(node->setting, sizeof(node->setting), MRD_SIMCLOCK_ENV "=%s,epoch=%lld",
                 node->error, (long long) nodes->epoch.ns);
        err = mrd_simclock_parse(strchr(node->setting, '=') + 1, &node->clock, why);
    }
    return err;
}

/* ---- Nodes ---- */

static mrd_err
folders(mrd_demo_node *node, const char *dir, size_t i, mrd_why *why)
{
    mrd_buf text = { 0 };

    snprintf(node->id, sizeof(node->id), "i-sim%04zu", i + 1);
    snprintf(node->address, sizeof(node->address), "127.0.0.1");
    mrd_buf_fmt(&text, "%s/%s", dir, node->id);
    snprintf(node->dir, sizeof(node->dir), "%s", mrd_buf_cstr(&text));
    mrd_buf_text(&text, "/rings");
    snprintf(node->rings, sizeof(node->rings), "%s", mrd_buf_cstr(&text));
    mrd_buf_fini(&text);
    if (mkdir(node->dir, 0700) != 0 || mkdir(node->rings, 0700) != 0)
        return mrd_why_set(why, MRD_IO, errno, "cannot make %s", node->rings);
    return MRD_OK;
}

mrd_err
mrd_demo_nodes_open(mrd_demo_nodes *nodes, size_t count, const char *dir, bool spaces, mrd_why *why)
{
    mrd_why reason = { 0 };
    mrd_err err = MRD_OK;

    *nodes = (mrd_demo_nodes){ .n = count };
    snprintf(nodes->address, sizeof(nodes->address), "127.0.0.1");
    snprintf(nodes->outside, sizeof(nodes->outside), "127.0.0.1");
    for (size_t i = 0; i < count && err == MRD_OK; i++)
        err = folders(&nodes->v[i], dir, i, why);
    if (err == MRD_OK)
        err = clocks_open(nodes, why);
    if (err != MRD_OK)
        return err;
    if (!spaces || geteuid() != 0) {
        snprintf(nodes->note, sizeof(nodes->note), "%s",
                 spaces ? "not root" : "not wanted (--no-namespaces)");
        return MRD_OK;
    }
    nodes->outside[0] = '\0';
    if (network_open(nodes, &reason) != MRD_OK) {
        network_close(nodes);
        snprintf(nodes->outside, sizeof(nodes->outside), "127.0.0.1");
        for (size_t i = 0; i < count; i++)
            snprintf(nodes->v[i].address, sizeof(nodes->v[i].address), "127.0.0.1");
        snprintf(nodes->note, sizeof(nodes->note), "%.200s", reason.text);
        return MRD_OK;
    }
    nodes->spaces = true;
    snprintf(nodes->address, sizeof(nodes->address), NETWORK ".1");
    return MRD_OK;
}

void
mrd_demo_nodes_close(mrd_demo_nodes *nodes)
{
    network_close(nodes);
}

mrd_err
mrd_demo_node_prefix(const mrd_demo_node *node, mrd_strlist *argv)
{
    char net[80];
    mrd_err err;

    if (node->space[0] == '\0')
        return MRD_OK;
    snprintf(net, sizeof(net), "--net=/run/netns/%s", node->space);
    if ((err = mrd_strlist_add(argv, MRD_STR("nsenter"))) != MRD_OK)
        return err;
    return mrd_strlist_add(argv, mrd_str_of(net));
}

/* Tries random ports below the kernel's ephemeral range first, and lets the kernel choose one in
 * the last try. The kernel gives ephemeral ports to outgoing connections, so another program could
 * take such a port before the daemon binds it. */
uint16_t
mrd_demo_free_port(int type)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t len = sizeof(a);
    int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    bool bound = false;

    for (int tries = 64; fd >= 0 && !bound && tries-- > 0;) {
        uint16_t draw;

        mrd_random(&draw, sizeof(draw));
        a.sin_port = tries == 0 ? 0 : htons((uint16_t) (10000 + draw % 22000));
        bound = bind(fd, (const struct sockaddr *) &a, sizeof(a)) == 0;
    }
    if (!bound || getsockname(fd, (struct sockaddr *) &a, &len) != 0)
        a.sin_port = 0;
    if (fd >= 0)
        close(fd);
    return ntohs(a.sin_port);
}
