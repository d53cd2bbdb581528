#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/obj.h"
#include "cli/demo.h"

#define NETWORK "10.91.7" /* inside the namespaces only */
#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

/* ip -n NS words... */
#define IP(why, ...) demo_run((why), (const char *const[]){ "ip", __VA_ARGS__, NULL })

/* ---- Network ---- */

static mrd_err
hub_open(demo_nodes *nodes, mrd_why *why)
{
    char path[64];
    mrd_err err = MRD_OK;
    int fd = -1;

    snprintf(nodes->hub, sizeof(nodes->hub), "mrd%d-hub", (int) getpid());
    if ((err = IP(why, "netns", "add", nodes->hub)) != MRD_OK) {
        nodes->hub[0] = '\0';
        return err;
    }
    if ((err = IP(why, "-n", nodes->hub, "link", "set", "lo", "up")) != MRD_OK ||
        (err = IP(why, "-n", nodes->hub, "link", "add", "br0", "type", "bridge")) != MRD_OK ||
        (err = IP(why, "-n", nodes->hub, "addr", "add", NETWORK ".1/24", "dev", "br0")) != MRD_OK ||
        (err = IP(why, "-n", nodes->hub, "link", "set", "br0", "up")) != MRD_OK)
        return err;
    snprintf(path, sizeof(path), "/run/netns/%s", nodes->hub);
    if ((fd = open(path, O_RDONLY | O_CLOEXEC)) < 0 || setns(fd, CLONE_NEWNET) != 0)
        err = mrd_why_set(why, MRD_IO, errno, "cannot enter the network namespace %s", path);
    if (fd >= 0)
        close(fd);
    return err;
}

static mrd_err
wire(const demo_nodes *nodes, demo_node *node, size_t i, mrd_why *why)
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
    if ((err = IP(why, "-n", nodes->hub, "link", "add", inside, "type", "veth", "peer", "name",
                  "eth0", "netns", node->space)) != MRD_OK ||
        (err = IP(why, "-n", nodes->hub, "link", "set", inside, "master", "br0", "up")) != MRD_OK ||
        (err = IP(why, "-n", node->space, "addr", "add", address, "dev", "eth0")) != MRD_OK ||
        (err = IP(why, "-n", node->space, "link", "set", "lo", "up")) != MRD_OK)
        return err;
    return IP(why, "-n", node->space, "link", "set", "eth0", "up");
}

static mrd_err
network_open(demo_nodes *nodes, mrd_why *why)
{
    mrd_err err = hub_open(nodes, why);

    for (size_t i = 0; err == MRD_OK && i < nodes->n; i++)
        err = wire(nodes, &nodes->v[i], i, why);
    return err;
}

static void
network_close(demo_nodes *nodes)
{
    for (size_t i = 0; i < nodes->n; i++) {
        if (nodes->v[i].space[0] != '\0')
            (void) IP(NULL, "netns", "del", nodes->v[i].space);
        nodes->v[i].space[0] = '\0';
    }
    if (nodes->hub[0] != '\0')
        (void) IP(NULL, "netns", "del", nodes->hub);
    nodes->hub[0] = '\0';
}

/* ---- Clocks ---- */

/* A time namespace whose monotonic clocks are ahead of this process's; children enter it by its
 * descriptor. This process's own clock stays as it is. */
static int
clock_open(mrd_dur_ns ahead)
{
    int own = open("/proc/self/ns/time", O_RDONLY | O_CLOEXEC), fd = -1;
    char text[64];
    int to, n;

    if (own < 0 || unshare(CLONE_NEWTIME) != 0) {
        if (own >= 0)
            close(own);
        return -1;
    }
    n = snprintf(text, sizeof(text), "monotonic %lld %lld\n", (long long) (ahead / MRD_SEC),
                 (long long) (ahead % MRD_SEC));
    if ((to = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC)) >= 0) {
        if (write(to, text, (size_t) n) == n)
            fd = open("/proc/self/ns/time_for_children", O_RDONLY | O_CLOEXEC);
        close(to);
    }
    if (setns(own, CLONE_NEWTIME) != 0 && fd >= 0) {
        close(fd);
        fd = -1;
    }
    close(own);
    return fd;
}

/* The first node has no error; the others seconds, and odd nanoseconds. */
static void
clocks_open(demo_nodes *nodes)
{
    nodes->clocks = true;
    for (size_t i = 1; i < nodes->n && nodes->clocks; i++) {
        nodes->v[i].ahead = (mrd_dur_ns) i * (7 * MRD_SEC + 123456789) + (mrd_dur_ns) (i * i) * 987;
        nodes->v[i].time_fd = clock_open(nodes->v[i].ahead);
        nodes->clocks = nodes->v[i].time_fd >= 0;
    }
    for (size_t i = 0; i < nodes->n && !nodes->clocks; i++) { /* all or none */
        if (nodes->v[i].time_fd >= 0)
            close(nodes->v[i].time_fd);
        nodes->v[i].time_fd = -1;
        nodes->v[i].ahead = 0;
    }
}

/* ---- Nodes ---- */

static mrd_err
folders(demo_node *node, const char *dir, size_t i, mrd_why *why)
{
    mrd_buf text = { 0 };

    node->time_fd = -1;
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
demo_nodes_open(demo_nodes *nodes, size_t n, const char *dir, bool spaces, mrd_why *why)
{
    mrd_why reason = { 0 };
    mrd_err err = MRD_OK;

    *nodes = (demo_nodes){ .n = n };
    snprintf(nodes->address, sizeof(nodes->address), "127.0.0.1");
    for (size_t i = 0; i < n; i++)
        nodes->v[i].time_fd = -1;
    for (size_t i = 0; i < n && err == MRD_OK; i++)
        err = folders(&nodes->v[i], dir, i, why);
    if (err != MRD_OK)
        return err;
    if (!spaces || geteuid() != 0) {
        snprintf(nodes->note, sizeof(nodes->note), "%s",
                 spaces ? "not root" : "not wanted (--no-namespaces)");
        return MRD_OK;
    }
    if (network_open(nodes, &reason) != MRD_OK) {
        network_close(nodes);
        for (size_t i = 0; i < n; i++)
            snprintf(nodes->v[i].address, sizeof(nodes->v[i].address), "127.0.0.1");
        snprintf(nodes->note, sizeof(nodes->note), "%.200s", reason.text);
        return MRD_OK;
    }
    nodes->spaces = true;
    snprintf(nodes->address, sizeof(nodes->address), NETWORK ".1");
    clocks_open(nodes);
    return MRD_OK;
}

void
demo_nodes_close(demo_nodes *nodes)
{
    for (size_t i = 0; i < nodes->n; i++) {
        if (nodes->v[i].time_fd >= 0)
            close(nodes->v[i].time_fd);
        nodes->v[i].time_fd = -1;
    }
    network_close(nodes);
}

mrd_err
demo_node_prefix(const demo_node *node, mrd_strlist *argv)
{
    char net[80], clock[80];
    mrd_err err;

    if (node->space[0] == '\0')
        return MRD_OK;
    snprintf(net, sizeof(net), "--net=/run/netns/%s", node->space);
    if ((err = mrd_strlist_add(argv, MRD_STR("nsenter"))) != MRD_OK ||
        (err = mrd_strlist_add(argv, mrd_str_of(net))) != MRD_OK)
        return err;
    snprintf(clock, sizeof(clock), "--time=/proc/%d/fd/%d", (int) getpid(), node->time_fd);
    return node->time_fd < 0 ? MRD_OK : mrd_strlist_add(argv, mrd_str_of(clock));
}

uint16_t
demo_free_port(int type)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t len = sizeof(a);
    int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    uint16_t port = 0;

    if (fd >= 0 && bind(fd, (const struct sockaddr *) &a, sizeof(a)) == 0 &&
        getsockname(fd, (struct sockaddr *) &a, &len) == 0)
        port = ntohs(a.sin_port);
    if (fd >= 0)
        close(fd);
    return port;
}
