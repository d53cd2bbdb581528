/* cli/doctor/doctor_link.c - checks the connection to the aggregator: spool, certificates, token,
 * ports */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "agent/spool/spool.h"
#include "base/num.h"
#include "base/obj.h"
#include "base/sys/secret.h"
#include "base/url.h"
#include "cli/cli.h"
#include "cli/doctor/doctor.h"
#include "pki/cert.h"
#include "pki/cert_times.h"
#include "pki/pki.h"

#define DAY            86400
#define SOON           (7 * DAY)
#define AUTHORITY_SOON (30 * DAY)
#define PATIENCE_MS    3000
#define TMPFS          0x01021994
#define TOKEN_LEAST    16

/* ---- Spool ---- */

/* Gets `dir` or, if it does not exist, its nearest existing parent. The agent creates missing
 * directories, so the parent must be writable. */
static void
existing_folder(const char *dir, char to[1024])
{
    char *slash;

    snprintf(to, 1024, "%s", dir);
    while (access(to, F_OK) != 0 && (slash = strrchr(to, '/')) != NULL)
        slash[slash == to] = '\0'; /* keeps the slash if only the root directory is left */
    if (access(to, F_OK) != 0)
        snprintf(to, 1024, ".");
}

void
mrd_doctor_spool(mrd_doctor *doctor)
{
    char dir[1024];
    char room[MRD_SIZE_TEXT], bound[MRD_SIZE_TEXT];
    int64_t avail = 0;
    struct statfs fs;
    struct stat st;
    uint64_t lost;

    if (doctor->agent->spool_dir == NULL && doctor->source == MRD_DOCTOR_HIDDEN) {
        mrd_doctor_say(doctor, MRD_DOCTOR_OK, NULL,
                       "the spool of the agent that runs is unknown, because this user cannot read "
                       "the agent's settings (run doctor as root)");
        return;
    }
    if (doctor->agent->spool_dir == NULL) {
        mrd_doctor_say(doctor, MRD_DOCTOR_WARNING, "--spool-dir DIR on a disk",
                       "there is no spool: what is not acknowledged is lost when the agent ends");
        return;
    }
    existing_folder(doctor->agent->spool_dir, dir);
    if (!mrd_doctor_writable(doctor, "spool", dir, &avail) || stat(dir, &st) != 0)
        return;
    mrd_cli_size((uint64_t) avail, room);
    mrd_cli_size((uint64_t) doctor->agent->spool_bytes, bound);
    if ((lost = mrd_spool_damage_in(doctor->agent->spool_dir)) > 0)
        mrd_doctor_say(doctor, MRD_DOCTOR_WARNING,
                       "find out what removes files there, or use another --spool-dir",
                       "%" PRIu64 " event%s went with the spool %s, which was cut or removed "
                       "while no agent ran (spool-damaged)",
                       lost, mrd_plural(lost), doctor->agent->spool_dir);
    if ((st.st_mode & 077) != 0 && strcmp(dir, doctor->agent->spool_dir) == 0)
        mrd_doctor_say(doctor, MRD_DOCTOR_WARNING, "chmod 700 it",
                       "spool %s is open to other users: it holds what processes recorded", dir);
    if (statfs(dir, &fs) == 0 && fs.f_type == TMPFS)
        mrd_doctor_say(doctor, MRD_DOCTOR_WARNING, "name a folder on a disk",
                       "spool %s is in memory: it takes memory from the workload and does not "
                       "outlive a boot",
                       dir);
    if (avail < doctor->agent->spool_bytes)
        mrd_doctor_say(doctor, MRD_DOCTOR_WARNING, "make room, or lower --spool-size",
                       "spool %s has %s free, less than its bound of %s", dir, room, bound);
    else
        mrd_doctor_say(doctor, MRD_DOCTOR_OK, NULL, "spool %s: %s free, at most %s are used",
                       doctor->agent->spool_dir, room, bound);
}

/* ---- Certificates ---- */

static bool
wants_tls(const mrd_doctor *doctor)
{
    return doctor->agent->data_url != NULL && strncmp(doctor->agent->data_url, "tls+", 4) == 0;
}

/* Returns true if a certificate must be renewed soon. Agents renew it when less than a third of its
 * validity is left. Authorities have a fixed limit. */
static bool
ends_soon(const mrd_cert_times *times, int64_t left)
{
    int64_t life = mrd_wall_diff(times->end, times->begin) / MRD_SEC;

    return times->authority ? left < AUTHORITY_SOON : left < life / 3 || left < SOON;
}

/* Reports whether a certificate is valid now, and for how long. `worst` is the level of the finding
 * if the certificate has expired. */
static void
say_validity(mrd_doctor *doctor, const char *what, const char *path, const mrd_cert_times *times,
             mrd_doctor_level worst, const char *fix)
{
    int64_t left = mrd_wall_diff(times->end, mrd_wall_now()) / MRD_SEC;
    int64_t ahead = mrd_wall_diff(times->begin, mrd_wall_now()) / MRD_SEC;

    if (left < 0)
        mrd_doctor_say(doctor, worst, fix, "%s %s (%s) expired %" PRId64 " day%s ago", what, path,
                       times->name, -left / DAY, mrd_plural((uint64_t) (-left / DAY)));
    else if (ahead > 0)
        mrd_doctor_say(doctor, worst, "set this node's clock", "%s %s (%s) is not valid before %s",
                       what, path, times->name,
                       mrd_wall_text(times->begin, (char[MRD_TIME_TEXT]){ "" }));
    else if (ends_soon(times, left))
        mrd_doctor_say(doctor, MRD_DOCTOR_WARNING, fix, "%s %s (%s) expires in %" PRId64 " day%s",
                       what, path, times->name, left / DAY, mrd_plural((uint64_t) (left / DAY)));
    else
        mrd_doctor_say(doctor, MRD_DOCTOR_OK, NULL, "%s %s (%s) is valid for %" PRId64 " more days",
                       what, path, times->name, left / DAY);
}

/* Checks the trusted authorities in a file. An expired authority is harmless if the file has one
 * that is valid. */
static void
authorities(mrd_doctor *doctor, const char *path)
{
    static const char fix[] =
        "add its successor to the file before it ends: docs/explanation/security.md";
    mrd_cert_times times[MRD_CERT_TIMES_MAX];
    size_t n = 0, told;
    mrd_why why = { 0 };
    bool one;

    if (mrd_cert_times_read(path, times, &n, &why) != MRD_OK) {
        mrd_doctor_say(doctor, MRD_DOCTOR_FAILED, "copy ca.pem here and make it readable", "%s",
                       why.text);
        return;
    }
    told = n < MRD_CERT_TIMES_MAX ? n : MRD_CERT_TIMES_MAX;
    one = n > told || times[told - 1].end.ns > mrd_wall_now().ns;
    for (size_t i = 0; i < told; i++)
        say_validity(doctor, "authority", path, &times[i],
                     one ? MRD_DOCTOR_WARNING : MRD_DOCTOR_FAILED, fix);
}

static void
own_certificate(mrd_doctor *doctor)
{
    const mrd_agent_options *options = doctor->agent;
    bool joins = mrd_agent_joins(options);
    mrd_cert_times times;
    mrd_pki_view view;
    mrd_why why = { 0 };

    if (options->tls_cert == NULL && options->tls_key == NULL)
        return;
    if (joins && access(options->tls_cert, F_OK) != 0) {
        mrd_doctor_say(doctor, MRD_DOCTOR_OK, NULL,
                       "there is no certificate %s yet: the agent gets it with its token",
                       options->tls_cert);
        return;
    }
    if (options->tls_cert == NULL || options->tls_key == NULL) {
        mrd_doctor_say(doctor, MRD_DOCTOR_FAILED, "give both",
                       "--tls-cert and --tls-key go together");
        return;
    }
    if (mrd_secret_check("key file", options->tls_key, &why) != MRD_OK ||
        mrd_pki_examine(options->tls_ca, options->tls_cert, options->tls_key, &view, &why) !=
            MRD_OK ||
        mrd_cert_times_first(options->tls_cert, &times, &why) != MRD_OK) {
        mrd_doctor_say(doctor, MRD_DOCTOR_FAILED, NULL, "%s", why.text);
        return;
    }
    say_validity(doctor, "certificate", options->tls_cert, &times, MRD_DOCTOR_FAILED,
                 joins ? "the agent renews it by itself: its log says why it does not (AGT-CERT)"
                       : "meridian certs renew, where the authority's key is");
    if (!view.key_fits)
        mrd_doctor_say(doctor, MRD_DOCTOR_FAILED, "copy both files of `meridian certs agent` again",
                       "%s is not the key of %s", options->tls_key, options->tls_cert);
    /* Not checked for agents that enroll, because the aggregator signs their certificates with an
     * authority of its own. */
    if (!joins && view.error[0] != '\0' && times.end.ns > mrd_wall_now().ns)
        mrd_doctor_say(doctor, MRD_DOCTOR_WARNING,
                       "fine when the aggregator trusts another authority than this node does",
                       "no authority in %s has signed %s: %s", options->tls_ca, options->tls_cert,
                       view.error);
    if (!mrd_cert_named(view.names, '\n', doctor->node.instance_id))
        mrd_doctor_say(doctor, MRD_DOCTOR_WARNING,
                       "meridian certs agent with this node's id, or --instance-id",
                       "certificate %s names %s and not this node, %s: an aggregator that asks for "
                       "certificates refuses it",
                       options->tls_cert, view.names, doctor->node.instance_id);
}

void
mrd_doctor_tls(mrd_doctor *doctor)
{
    const mrd_agent_options *options = doctor->agent;
    /* gets the paths of the certificate that the agent received when it enrolled */
    mrd_link_options with;

    if (!wants_tls(doctor)) {
        mrd_doctor_say(doctor, MRD_DOCTOR_OK, NULL, "no TLS is asked for");
        return;
    }
    if (options->tls_ca == NULL)
        mrd_doctor_say(doctor, MRD_DOCTOR_FAILED, "--tls-ca FILE (ca.pem of `meridian certs init`)",
                       "the trusted authority is not given");
    else
        authorities(doctor, options->tls_ca);
    /* own_certificate() reports errors */
    if (mrd_agent_joins(options))
        (void) mrd_agent_link_options(doctor->agent, &with, &(mrd_why){ 0 });
    own_certificate(doctor);
}

void
mrd_doctor_token(mrd_doctor *doctor)
{
    mrd_why why = { 0 };
    char *token = NULL;

    if (doctor->agent->token_file == NULL) {
        mrd_doctor_say(doctor, MRD_DOCTOR_OK, NULL, "no token is given");
        return;
    }
    if (mrd_secret_read("token file", doctor->agent->token_file, &token, &why) != MRD_OK)
        mrd_doctor_say(doctor, MRD_DOCTOR_FAILED, NULL, "%s", why.text);
    else if (strlen(token) < TOKEN_LEAST)
        mrd_doctor_say(doctor, MRD_DOCTOR_FAILED, "meridian certs agent makes one",
                       "the token in %s has fewer than %d characters", doctor->agent->token_file,
                       TOKEN_LEAST);
    else
        mrd_doctor_say(
            doctor, MRD_DOCTOR_OK, NULL,
            "token file %s is private; the agent's log shows whether the aggregator accepts it",
            doctor->agent->token_file);
    mrd_secret_free(token);
}

/* ---- Ports ---- */

/* Splits an address like "tls+tcp://host:port". Returns false for other kinds of address. */
static bool
host_and_port(const char *address, char host[256], char port[16])
{
    mrd_url url;

    if (mrd_url_parse(address, &url) != MRD_OK || !mrd_url_is(&url, "tcp") || url.port < 0 ||
        !mrd_url_host(&url, host, 256))
        return false;
    snprintf(port, 16, "%d", url.port);
    return true;
}

/* Tries to connect. Returns 0, or the errno value of the failure or timeout. */
static int
try_connect(const struct addrinfo *to)
{
    int fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), err = 0;
    struct pollfd poll_fd = { fd, POLLOUT, 0 };
    socklen_t len = sizeof(err);

    if (fd < 0)
        return errno;
    if (connect(fd, to->ai_addr, to->ai_addrlen) != 0)
        err = errno;
    if (err == EINPROGRESS) {
        if (poll(&poll_fd, 1, PATIENCE_MS) <= 0)
            err = ETIMEDOUT;
        else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) != 0)
            err = errno;
    }
    close(fd);
    return err;
}

/* Returns true if the port accepts connections. */
static bool
reach(mrd_doctor *doctor, const char *what, const char *url)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found = NULL;
    char host[256], port[16];
    int rv, err = EHOSTUNREACH;

    if (!host_and_port(url, host, port))
        return true; /* other addresses, like ipc, have no port; dial() tests them */
    if ((rv = getaddrinfo(host, port, &hints, &found)) != 0) {
        mrd_doctor_say(doctor, MRD_DOCTOR_FAILED, "check the name and the resolver of this node",
                       "%s %s: %s", what, url, gai_strerror(rv));
        return false;
    }
    for (const struct addrinfo *a = found; a != NULL && err != 0; a = a->ai_next)
        err = try_connect(a);
    freeaddrinfo(found);
    if (err == 0)
        return true;
    mrd_doctor_say(doctor, MRD_DOCTOR_FAILED,
                   err == ECONNREFUSED ? "start meridian-aggregator there, or correct the address"
                   : err == ETIMEDOUT  ? "let TCP to this port through (security group, "
                                         "NetworkPolicy, firewall)"
                                       : NULL,
                   "%s %s: %s", what, url,
                   err == ECONNREFUSED ? "no program listens there" : strerror(err));
    return false;
}

/* Connects in the same way as the agent, without sending data. */
static void
dial(mrd_doctor *doctor, const mrd_link_options *options)
{
    int64_t end = mrd_local_now().ns + PATIENCE_MS * MRD_MS;
    mrd_link *link = NULL;
    mrd_link_event event;
    mrd_why why = { 0 };
    bool failed = false;

    if (mrd_link_open(options, &link, &why) != MRD_OK) {
        mrd_doctor_say(doctor, MRD_DOCTOR_FAILED, NULL, "%s", why.text);
        return;
    }
    while (!mrd_link_is_up(link) && !failed && mrd_local_now().ns < end) {
        if (mrd_link_next(link, 20, &event))
            mrd_link_event_done(&event);
        failed = mrd_link_next_error(link, &why);
    }
    if (mrd_link_is_up(link))
        mrd_doctor_say(doctor, MRD_DOCTOR_OK, NULL, "%s can be reached%s", options->data_url,
                       wants_tls(doctor) ? " and has proven who it is" : "");
    else if (failed)
        mrd_doctor_say(doctor, MRD_DOCTOR_FAILED, NULL, "%s: %s", options->data_url, why.text);
    else
        mrd_doctor_say(doctor, MRD_DOCTOR_FAILED,
                       "does the address belong to meridian-aggregator's data port, and is it "
                       "tls+tcp:// there?",
                       "%s accepts the connection and does not answer", options->data_url);
    mrd_link_close(link);
}

void
mrd_doctor_aggregator(mrd_doctor *doctor)
{
    mrd_link_options options;
    mrd_why why = { 0 };

    if (doctor->agent->data_url == NULL) {
        mrd_doctor_say(doctor, MRD_DOCTOR_WARNING, "--aggregator URL, or MERIDIAN_AGGREGATOR",
                       "no aggregator is given: events are counted and dropped");
        return;
    }
    if (mrd_agent_link_options(doctor->agent, &options, &why) != MRD_OK) {
        mrd_doctor_say(doctor, MRD_DOCTOR_FAILED, NULL, "%s", why.text);
        return;
    }
    options.control_url = NULL;
    if (reach(doctor, "data port", doctor->agent->data_url))
        dial(doctor, &options);
    if (doctor->agent->control_url == NULL)
        mrd_doctor_say(doctor, MRD_DOCTOR_WARNING, "--control URL",
                       "the control port is not known: sessions reach this node with its next "
                       "heartbeat only");
    else if (reach(doctor, "control port", doctor->agent->control_url))
        mrd_doctor_say(doctor, MRD_DOCTOR_OK, NULL, "%s can be reached",
                       doctor->agent->control_url);
}

void
mrd_doctor_metrics(mrd_doctor *doctor)
{
    struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
                              .ai_socktype = SOCK_STREAM };
    struct addrinfo *at = NULL;
    char port[24];
    int fd = -1, on = 1;

    if (doctor->agent->metrics_port <= 0 || doctor->agent_runs) {
        mrd_doctor_say(doctor, MRD_DOCTOR_OK, NULL,
                       doctor->agent->metrics_port <= 0 ? "no metrics port is asked for"
                                                        : "the agent that runs has its port");
        return;
    }
    snprintf(port, sizeof(port), "%" PRId64, doctor->agent->metrics_port);
    if (getaddrinfo(doctor->agent->metrics_address, port, &hints, &at) != 0) {
        mrd_doctor_say(doctor, MRD_DOCTOR_FAILED, "a numeric one",
                       "--metrics-address %s is not an address", doctor->agent->metrics_address);
        return;
    }
    if ((fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0)) >= 0)
        (void) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (fd < 0 || bind(fd, at->ai_addr, at->ai_addrlen) != 0 || listen(fd, 1) != 0)
        mrd_doctor_say(doctor, MRD_DOCTOR_FAILED, "another --metrics-port",
                       "metrics port %" PRId64 " cannot be used: %s", doctor->agent->metrics_port,
                       strerror(errno));
    else
        mrd_doctor_say(doctor, MRD_DOCTOR_OK, NULL, "metrics port %" PRId64 " is free",
                       doctor->agent->metrics_port);
    freeaddrinfo(at);
    if (fd >= 0)
        close(fd);
}
