/* webhook/main.c - the program meridian-webhook: its options, its signals and its three HTTP
 * routes. The API server of Kubernetes sends new pods to it. A cluster runs one or more
 * instances. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/conf/conf.h"
#include "base/conf/log.h"
#include "base/conf/manual.h"
#include "base/obj.h"
#include "base/plain.h"
#include "base/sys/secret.h"
#include "base/sys/threads.h"
#include "base/url.h"
#include "base/version.h"
#include "httpd/httpd.h"
#include "meridian_commit.h" /* generated: scripts/commit.sh */
#include "pki/cert_times.h"
#include "webhook/review.h"

typedef struct {
    char *listen, *cert, *key, *image, *library, *rings;
    bool insecure, json_log, help, version;
    int log_level;
} settings;

#define AT(member) .offset = offsetof(settings, member)
#define ENV(name)  .env = "MERIDIAN_WEBHOOK_" name

static const mrd_opt table[] = {
    { .type = MRD_OPT_HEAD, .help = "Pods" },
    { .name = "image",
      .type = MRD_OPT_STR,
      AT(image),
      .arg = "IMAGE",
      ENV("IMAGE"),
      .help = "Meridian's image, from which an init container copies the library; required" },
    { .name = "library",
      .type = MRD_OPT_STR,
      AT(library),
      .def = "/usr/lib/libmeridian.so",
      .arg = "FILE",
      ENV("LIBRARY"),
      .help = "where the library is in the image" },
    { .name = "rings-size",
      .type = MRD_OPT_STR,
      AT(rings),
      .def = "1Gi",
      .arg = "QUANTITY",
      ENV("RINGS_SIZE"),
      .help = "limit of the volume for rings at /dev/shm (memory of the pod)" },
    { .type = MRD_OPT_HEAD, .help = "Address" },
    { .name = "listen",
      .type = MRD_OPT_STR,
      AT(listen),
      .def = "127.0.0.1:7790",
      .arg = "HOST:PORT",
      ENV("LISTEN"),
      .help = "HTTPS; [::1]:7790 for IPv6" },
    { .name = "cert",
      .type = MRD_OPT_STR,
      AT(cert),
      .arg = "FILE",
      ENV("CERT"),
      .help = "certificate (PEM); read again when the file changes" },
    { .name = "key", .type = MRD_OPT_STR, AT(key), .arg = "FILE", ENV("KEY"), .help = "its key" },
    { .name = "insecure",
      .type = MRD_OPT_BOOL,
      AT(insecure),
      ENV("INSECURE"),
      .help = "allow plain HTTP" },
    { .type = MRD_OPT_HEAD, .help = "General" },
    { .name = "log-level",
      .type = MRD_OPT_CHOICE,
      AT(log_level),
      .def = "info",
      .arg = "error,warn,info,debug",
      .env = "MERIDIAN_LOG_LEVEL",
      .help = "least severe level that is logged" },
    { .name = "log-json",
      .type = MRD_OPT_BOOL,
      AT(json_log),
      .env = "MERIDIAN_LOG_JSON",
      .help = "one JSON object per line" },
    { .name = "version", .type = MRD_OPT_BOOL, AT(version), .help = "print the version" },
    { .name = "help", .letter = 'h', .type = MRD_OPT_BOOL, AT(help), .help = "print this" },
};

#define OPTIONS MRD_COUNT(table)

typedef struct {
    mrd_inject_options inject;
    mrd_cert_file cert;
    /* NULL until mrd_httpd_start has returned, although requests may already arrive */
    _Atomic(mrd_httpd *) httpd;
    /* pods that requested recording, and pods that got warnings */
    atomic_uint_fast64_t pods, warned;
} hook;

static mrd_err
post_inject(void *self, mrd_http_request *req, mrd_why *why)
{
    hook *h = self;
    mrd_json *review = NULL, *answer = NULL;
    mrd_review_done done;
    mrd_err err;

    if ((err = mrd_http_json(req, &review, why)) == MRD_OK)
        err = mrd_review_answer(&h->inject, review, &answer, &done, why);
    mrd_json_free(review);
    if (err != MRD_OK) {
        mrd_log(MRD_LOG_WARN, "HOOK-REFUSED", "A request was refused: reason=%s", why->text);
        return err;
    }
    h->pods += done.containers > 0 || done.warnings > 0;
    h->warned += done.warnings > 0;
    if (done.containers > 0 || done.warnings > 0)
        mrd_log(done.warnings > 0 ? MRD_LOG_WARN : MRD_LOG_INFO, "HOOK-POD",
                "A pod asked to be recorded: namespace=%s pod=%s containers=%u warnings=%zu",
                done.space, done.name, done.containers, done.warnings);
    return mrd_http_reply_json(req, 200, answer);
}

/* Replies with metrics: the numbers of pods and of HTTP requests, and the validity of the
 * certificate. Like all routes here, it needs no token. */
static mrd_err
get_metrics(void *self, mrd_http_request *req, mrd_why *why)
{
    hook *h = self;
    bool open = mrd_metrics_text_wants_open(mrd_http_header(req, "Accept"));
    mrd_httpd *httpd = h->httpd;
    mrd_httpd_counts counts = { 0 };
    mrd_metrics_text text;
    mrd_buf body = { 0 };

    (void) why;
    if (httpd != NULL)
        mrd_httpd_count(httpd, &counts);
    mrd_metrics_text_begin(&text, &body, open);
    mrd_metrics_text_one(&text, MRD_METRICS_COUNTER, "meridian_webhook_pods_total",
                         "Pods that asked to be recorded.", h->pods);
    mrd_metrics_text_one(&text, MRD_METRICS_COUNTER, "meridian_webhook_warned_total",
                         "Of them, those with something in the way.", h->warned);
    mrd_cert_times_metrics(&text, &h->cert, 1);
    mrd_metrics_text_one(&text, MRD_METRICS_COUNTER, "meridian_http_requests_total",
                         "HTTP requests.", counts.requests);
    mrd_metrics_text_one(&text, MRD_METRICS_COUNTER, "meridian_http_errors_total",
                         "HTTP replies of 400 and above.", counts.errors);
    mrd_metrics_text_process(&text);
    mrd_metrics_text_end(&text);
    mrd_http_set_header(req, "Vary", "Accept");
    return mrd_http_reply_text(req, 200, mrd_metrics_text_type(open), &body);
}

static const char *const query[] = { "timeout", NULL }; /* the API server adds it */

/* No route needs a token, because an answer contains only data of its own request or metrics. */
static const mrd_http_route routes[] = {
    { "POST", "/inject", MRD_ACTION_OPEN, post_inject, "what a pod lacks to be recorded", query },
    { "GET", "/healthz", MRD_ACTION_OPEN, mrd_http_reply_alive, "the process is alive", NULL },
    { "GET", "/metrics", MRD_ACTION_OPEN, get_metrics, "metrics for Prometheus", NULL },
};

static mrd_err
settings_check(const settings *s, mrd_httpd_options *options, char host[256], mrd_why *why)
{
    uint16_t port;

    if (s->image == NULL || s->image[0] == '\0')
        return mrd_why_set(why, MRD_INVALID, 0,
                           "--image is missing: the image from which pods get the library");
    if (s->library[0] != '/')
        return mrd_why_set(why, MRD_INVALID, 0, "--library %s is not an absolute path", s->library);
    if (strspn(s->rings, "0123456789.EPTGMKkmi") != strlen(s->rings) || s->rings[0] == '\0' ||
        strlen(s->rings) > 32)
        return mrd_why_set(why, MRD_INVALID, 0,
                           "--rings-size %s is not a Kubernetes quantity such as 1Gi", s->rings);
    if (!mrd_url_listen(s->listen, host, 256, &port))
        return mrd_why_set(why, MRD_INVALID, 0, "--listen %s is not HOST:PORT", s->listen);
    if (!s->insecure && (s->cert == NULL || s->key == NULL))
        return mrd_why_set(
            why, MRD_AUTH, 0,
            "the API server asks by HTTPS only: give --cert and --key (or --insecure "
            "behind something that speaks TLS)");
    if (s->insecure && (s->cert != NULL || s->key != NULL))
        return mrd_why_set(why, MRD_INVALID, 0,
                           "--insecure serves plain HTTP: leave it out, or --cert and --key");
    *options = (mrd_httpd_options){ .address = host,
                                    .port = port,
                                    .cert = s->cert,
                                    .key = s->key,
                                    .max_connections = 128,
                                    .idle_seconds = 10 };
    return MRD_OK;
}

/* Returns the signal that ends the program. Until then, reloads certificate and key on SIGHUP and
 * when their files change. */
static int
wait_and_watch(mrd_httpd *httpd, const sigset_t *set)
{
    struct timespec second = { .tv_sec = 1 };
    char told[MRD_WHY_MAX] = "";
    mrd_why why = { 0 };

    for (;;) {
        int sig = sigtimedwait(set, NULL, &second);

        if (sig > 0 && sig != SIGHUP)
            return sig;
        while (mrd_httpd_next_error(httpd, &why))
            mrd_log(MRD_LOG_WARN, "HOOK-TLS", "A TLS connection failed: reason=%s", why.text);
        if (sig != SIGHUP && !mrd_httpd_changed(httpd))
            continue;
        if (mrd_httpd_reload(httpd, &why) == MRD_OK) {
            mrd_log(MRD_LOG_INFO, "HOOK-RELOAD", "Certificate and key were read again");
            told[0] = '\0';
        } else if (strcmp(told, why.text) != 0) { /* tried again each second, logged once */
            mrd_log(MRD_LOG_WARN, "HOOK-RELOAD",
                    "Certificate and key cannot be read again, those in use stay: reason=%s",
                    why.text);
            memcpy(told, why.text, sizeof(told));
        }
    }
}

static int
serve(const settings *s)
{
    hook h = { .inject = { .image = s->image, .library = s->library, .rings = s->rings },
               .cert = { "cert", s->cert } };
    mrd_httpd_options options;
    mrd_httpd *httpd = NULL;
    mrd_why why = { 0 };
    char host[256];
    sigset_t set;
    int sig;

    if (settings_check(s, &options, host, &why) != MRD_OK) {
        mrd_plain_line(stderr, "meridian-webhook", mrd_str_of(why.text));
        return 2;
    }
    mrd_daemon_signals(&set);
    if (mrd_httpd_start(&options, routes, MRD_COUNT(routes), &h, &httpd, &why) != MRD_OK) {
        mrd_plain_line(stderr, "meridian-webhook", mrd_str_of(why.text));
        return 1;
    }
    h.httpd = httpd;
    mrd_log(MRD_LOG_INFO, "HOOK-UP", "The webhook started: address=%s port=%u image=%s", host,
            mrd_httpd_port(httpd), s->image);
    sig = wait_and_watch(httpd, &set);
    mrd_log(MRD_LOG_INFO, "HOOK-DOWN", "The webhook stops: signal=%d", sig);
    mrd_httpd_stop(httpd);
    return 0;
}

int
main(int argc, char **argv)
{
    static const mrd_manual manual = {
        .program = "meridian-webhook",
        .what = "Prepares pods that ask for it to be recorded (Kubernetes mutating webhook)",
        .usage = "--image IMAGE --cert FILE --key FILE [options]",
        .table = table,
        .rows = OPTIONS,
    };
    settings s = { 0 };
    mrd_why why = { 0 };
    char version[MRD_BUILD_TEXT];
    int code;

    mrd_version_set_commit(MRD_COMMIT);
    (void) umask(077);
    mrd_secret_process();
    if (mrd_manual_asked(&manual, argc, argv, false, stdout))
        return mrd_manual_end("meridian-webhook", 0);
    if (mrd_conf_program(table, OPTIONS, &s, argc, argv, &why) != MRD_OK) {
        mrd_plain_line(stderr, "meridian-webhook", mrd_str_of(why.text));
        mrd_conf_fini(table, OPTIONS, &s);
        return 2;
    }
    mrd_log_init("meridian-webhook", 2, (mrd_log_level) s.log_level, s.json_log);
    if (s.version) {
        printf("meridian-webhook %s\n", mrd_version_text(version));
        code = mrd_manual_end("meridian-webhook", 0);
    } else {
        code = serve(&s);
    }
    mrd_conf_fini(table, OPTIONS, &s);
    return code;
}
