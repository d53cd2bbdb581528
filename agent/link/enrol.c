#include "agent/link/enrol.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/guard/job_thread.h"
#include "base/conf/agent_waits.h"
#include "base/conf/json.h"
#include "base/conf/log.h"
#include "base/hash.h"
#include "base/sys/file.h"
#include "base/sys/out.h"
#include "base/sys/secret.h"
#include "hw/identity.h"
#include "pki/csr.h"
#include "proto/fetch.h"
#include "proto/wire.h"

#define ANSWER_MAX (64u << 10)
#define FETCH_S    20
#define HOUR       (3600 * MRD_SEC)

/* A request for a certificate and its result. A separate thread (`thread` of mrd_enrol) sends the
 * request, because it may block. While the request runs, only that thread may access this
 * struct. */
typedef struct {
    mrd_enrol_act act;
    /* `have` is true if a current certificate exists, `counts` if this certificate is valid and
     * connections with it work. */
    bool have, counts;
    mrd_wall_ns to; /* when the current certificate expires */
    /* mrd_files_stamp of the certificate, key and token files when the request began */
    uint64_t stamp;
    mrd_err err;
    mrd_why why;
    mrd_wall_ns got; /* when the new certificate expires */
    const char *by;
} task;

struct mrd_enrol {
    mrd_enrol_options o;
    /* path of the new certificate file until the aggregator has accepted the certificate */
    char *next_path;
    mrd_job_thread *thread;
    atomic_bool stopping;
    bool posted;
    task t;
    mrd_enrol_facts facts;
    uint64_t stamp;
    /* `looked` is when the certificate, key and token files were last checked for changes. `next`
     * is the earliest time of the next request for a certificate. */
    mrd_local_ns looked, next;
    unsigned failures;
    char lacks[MRD_WHY_MAX];
    mrd_local_ns said; /* when it was last logged that the certificate has expired */
};

/* ---- Decisions about the certificate ---- */

mrd_enrol_act
mrd_enrol_decide(const mrd_enrol_facts *facts, mrd_wall_ns now)
{
    if (!facts->have || now.ns >= facts->to.ns) /* an expired certificate cannot be renewed */
        return facts->token ? MRD_ENROL_JOIN : MRD_ENROL_NOTHING;
    if (facts->refused || now.ns - facts->from.ns >= (facts->to.ns - facts->from.ns) / 3 * 2)
        return MRD_ENROL_RENEW;
    /* A certificate that is not valid yet is not renewed, because the node's clock is probably
     * wrong. */
    return MRD_ENROL_NOTHING;
}

mrd_dur_ns
mrd_enrol_pause(unsigned failures)
{
    unsigned doubled = failures > 20 ? 20 : failures;
    mrd_dur_ns pause = MRD_WAIT_ENROL_MIN;

    while (doubled-- > 1 && pause < MRD_WAIT_ENROL_MAX)
        pause *= 2;
    return pause < MRD_WAIT_ENROL_MAX ? pause : MRD_WAIT_ENROL_MAX;
}

static uint64_t
stamp_of(const mrd_enrol *enrol)
{
    const char *files[] = { enrol->o.link.tls.cert_file, enrol->o.link.tls.key_file,
                            enrol->o.token_file };

    return mrd_files_stamp(files, sizeof(files) / sizeof(files[0]));
}

/* ---- On the separate thread: requests to the aggregator ---- */

static mrd_err
answer_error(const char *url, unsigned status, const mrd_buf *answer, mrd_why *why)
{
    mrd_err err = status == 401 || status == 403 ? MRD_AUTH
                  : status == 501                ? MRD_UNSUPPORTED
                  : status >= 500                ? MRD_AGAIN
                                                 : MRD_INVALID;
    mrd_json *doc = NULL;
    const char *detail = "";

    if (mrd_json_parse((mrd_str){ (const char *) answer->p, answer->len }, url, &doc, NULL) ==
            MRD_OK &&
        mrd_json_is_object(doc))
        detail = mrd_json_str(doc, "detail", "");
    mrd_why_set(why, err, 0, "%s answers with status %u%s%.400s", url, status,
                detail[0] == '\0' ? "" : ": ", detail);
    mrd_json_free(doc);
    return err;
}

/* Takes the certificate out of the aggregator's answer and appends it to *to. */
static mrd_err
take_answer(const char *url, unsigned status, const mrd_buf *answer, mrd_buf *to, mrd_why *why)
{
    mrd_json *doc = NULL;
    const char *cert;
    mrd_err err;

    if (status != 201)
        return answer_error(url, status, answer, why);
    err = mrd_json_parse((mrd_str){ (const char *) answer->p, answer->len }, url, &doc, why);
    if (err != MRD_OK)
        return err;
    cert = mrd_json_is_object(doc) ? mrd_json_str(doc, "certificate", "") : "";
    if (cert[0] == '\0')
        err = mrd_why_set(why, MRD_SYNTAX, 0, "%s answers without a certificate", url);
    else
        mrd_buf_text(to, cert);
    mrd_json_free(doc);
    return err != MRD_OK ? err : to->err;
}

static mrd_err
post(mrd_enrol *enrol, const char *path, const mrd_json *body, const char *bearer, mrd_buf *to,
     mrd_why *why)
{
    mrd_buf url = { 0 }, text = { 0 }, answer = { 0 };
    unsigned status = 0;
    mrd_err err = MRD_OK;

    mrd_buf_fmt(&url, "%s%s", enrol->o.server, path);
    mrd_buf_cstr(&url);
    /* reserves all memory at once, because growing the buffer would leave the invitation in freed
     * memory */
    mrd_buf_room(&text, 4 * MRD_CSR_MAX);
    mrd_json_write(body, false, &text);
    mrd_buf_cstr(&text);
    if (url.err != MRD_OK || text.err != MRD_OK)
        err = mrd_why_set(why, MRD_NOMEM, 0, "request for a certificate");
    else
        err = mrd_fetch(&(mrd_fetch_request){ .url = (const char *) url.p,
                                              .ca_file = enrol->o.link.tls.ca_file,
                                              .bearer_file = bearer,
                                              .json = (const char *) text.p,
                                              .max = ANSWER_MAX,
                                              .seconds = FETCH_S,
                                              .stopped = &enrol->stopping },
                        &answer, &status, why);
    if (err == MRD_OK)
        err = take_answer((const char *) url.p, status, &answer, to, why);
    if (text.p != NULL)
        explicit_bzero(text.p, text.cap);
    mrd_buf_fini(&url);
    mrd_buf_fini(&text);
    mrd_buf_fini(&answer);
    return err;
}

/* Requests a certificate with the token. A token with dots is a JWT of a service account, which has
 * three parts. A token without dots is an invitation. */
static mrd_err
join_with_token(mrd_enrol *enrol, mrd_json *body, mrd_buf *to, const char **ret_by, mrd_why *why)
{
    char *token = NULL;
    bool account;
    mrd_err err = mrd_secret_read("join token file", enrol->o.token_file, &token, why);

    if (err != MRD_OK)
        return err;
    account = strchr(token, '.') != NULL;
    *ret_by = account ? "account" : "invitation";
    mrd_json_set(body, "instance", mrd_json_new_str(enrol->o.instance));
    if (!account)
        mrd_json_set(body, "invitation", mrd_json_new_str(token));
    mrd_secret_free(token);
    return account ? post(enrol, "/api/v1/certificates/account", body, enrol->o.token_file, to, why)
                   : post(enrol, "/api/v1/certificates", body, NULL, to, why);
}

static mrd_err
ask(mrd_enrol *enrol, mrd_enrol_act act, const char *request, mrd_buf *to, const char **ret_by,
    mrd_why *why)
{
    mrd_json *body = mrd_json_new_object();
    mrd_buf cert = { 0 };
    mrd_err err = mrd_json_set(body, "request", mrd_json_new_str(request));

    if (err == MRD_OK && act == MRD_ENROL_RENEW)
        err = mrd_file_read(enrol->o.link.tls.cert_file, MRD_CSR_MAX, &cert, why);
    if (err == MRD_OK && act == MRD_ENROL_RENEW) {
        *ret_by = "certificate";
        mrd_json_set(body, "certificate", mrd_json_new_str(mrd_buf_cstr(&cert)));
        err = post(enrol, "/api/v1/certificates", body, NULL, to, why);
    } else if (err == MRD_OK) {
        err = join_with_token(enrol, body, to, ret_by, why);
    }
    mrd_json_free(body);
    mrd_buf_fini(&cert);
    return err;
}

/* ---- On the separate thread: testing and installing the certificate ---- */

static mrd_err
send_probe(mrd_enrol *enrol, mrd_link *link, uint64_t tag)
{
    mrd_frame f = { .type = MRD_FRAME_PROBE,
                    .agent = mrd_agent_key(mrd_str_of(enrol->o.instance)) };
    Mrd__Probe probe = MRD__PROBE__INIT;
    mrd_buf frame = { 0 };
    mrd_err err;

    probe.k = (uint32_t) tag;
    probe.a1 = mrd_local_now().ns;
    err = mrd_msg_pack(&f, &probe, &frame, NULL);
    if (err == MRD_OK)
        err = mrd_link_submit_urgent(link, tag, (mrd_bytes){ frame.p, frame.len });
    mrd_buf_fini(&frame);
    return err;
}

/* Tests the new certificate by a clock probe, which the aggregator answers on any accepted
 * connection. A TLS handshake that is complete on this side is no proof, because the aggregator
 * verifies the certificate after that. */
static mrd_err
try_it(mrd_enrol *enrol, mrd_why *why)
{
    mrd_link_options options = enrol->o.link;
    mrd_local_ns end = mrd_local_add(mrd_local_now(), MRD_WAIT_ENROL_TRY);
    mrd_link *link = NULL;
    bool answered = false;
    mrd_why refused = { 0 };
    mrd_err err;

    options.control_url = NULL;
    options.tls.cert_file = enrol->next_path;
    options.window = 1;
    options.reply_ns = MRD_WAIT_ENROL_TRY;
    if ((err = mrd_link_open(&options, &link, why)) != MRD_OK)
        return err;
    while (!answered && refused.err == MRD_OK && !enrol->stopping &&
           mrd_local_before(mrd_local_now(), end)) {
        mrd_link_event ev;

        if (mrd_link_next(link, 100, &ev)) {
            if (ev.kind == MRD_LINK_UP)
                (void) send_probe(enrol, link, 1);
            answered = ev.kind == MRD_LINK_REPLY;
            mrd_link_event_done(&ev);
        }
        (void) mrd_link_next_error(link, &refused);
    }
    mrd_link_close(link);
    if (answered)
        return MRD_OK;
    if (refused.err != MRD_OK)
        return mrd_why_set(
            why, MRD_AUTH, 0,
            "the aggregator does not accept the new certificate, the old one stays in "
            "use: %.400s",
            refused.text);
    return mrd_why_set(why, MRD_TIMEOUT, 0,
                       "%s gives no answer to a connection with the new certificate, the old one "
                       "stays in use",
                       options.data_url);
}

/* Installs a new certificate. Writes it durably under another name, tests it, and then renames it
 * over the old certificate. The old certificate stays until the aggregator has accepted the new
 * one. */
static mrd_err
install(mrd_enrol *enrol, mrd_str cert, bool counts, mrd_why *why)
{
    const char *path = enrol->o.link.tls.cert_file, *slash = strrchr(path, '/');
    char dir[1024];
    mrd_err err = mrd_write_file_durable(
        enrol->next_path, (mrd_bytes){ (const uint8_t *) cert.p, cert.len }, 0644, why);

    if (err == MRD_OK && counts)
        err = try_it(enrol, why);
    if (err == MRD_OK && rename(enrol->next_path, path) != 0)
        err = mrd_why_set(why, MRD_IO, errno, "%s", path);
    if (err != MRD_OK) {
        (void) unlink(enrol->next_path);
        return err;
    }
    snprintf(dir, sizeof(dir), "%.*s", slash == NULL ? 1 : (int) (slash - path + 1),
             slash == NULL ? "." : path);
    return mrd_sync_dir(dir, why);
}

static void
work(void *self)
{
    mrd_enrol *enrol = self;
    task *t = &enrol->t;
    mrd_buf cert = { 0 }, request = { 0 };
    mrd_wall_ns from;

    (void) unlink(enrol->next_path); /* left by an agent that was killed */
    t->err = mrd_csr_make(enrol->o.link.tls.key_file, enrol->o.instance, &request, &t->why);
    if (t->err == MRD_OK) {
        /* the stamp is read after the certificate request, which may have made a new key file */
        t->stamp = stamp_of(enrol);
        t->err = ask(enrol, t->act, mrd_buf_cstr(&request), &cert, &t->by, &t->why);
    }
    /* The renewal was refused because the certificate is revoked or of another authority. If there
     * is a token, the agent can still get a new certificate with the token. */
    if (t->act == MRD_ENROL_RENEW && t->err == MRD_AUTH && enrol->o.token_file != NULL) {
        mrd_why renewal = t->why, token = { 0 };

        t->err = ask(enrol, MRD_ENROL_JOIN, mrd_buf_cstr(&request), &cert, &t->by, &token);
        if (t->err != MRD_OK)
            (void) mrd_why_set(&t->why, t->err, 0, "%.300s; and with the token: %.300s",
                               renewal.text, token.text);
    }
    if (t->err == MRD_OK && ((t->err = mrd_csr_fits((mrd_str){ (const char *) cert.p, cert.len },
                                                    enrol->o.link.tls.key_file, enrol->o.instance,
                                                    &t->why)) != MRD_OK ||
                             (t->err = mrd_csr_period((mrd_str){ (const char *) cert.p, cert.len },
                                                      &from, &t->got, &t->why)) != MRD_OK))
        (void) mrd_why_prefix(&t->why, t->err, "the aggregator's answer");
    if (t->err == MRD_OK && t->have && t->counts && t->got.ns <= t->to.ns)
        t->err = mrd_why_set(&t->why, MRD_STATE, 0,
                             "the new certificate does not last longer than the one there is: the "
                             "aggregator's authority (--agent-ca) ends with it");
    if (t->err == MRD_OK)
        t->err = install(enrol, (mrd_str){ (const char *) cert.p, cert.len }, t->counts, &t->why);
    mrd_buf_fini(&request);
    mrd_buf_fini(&cert);
}

/* ---- On the thread of the agent's loop ---- */

/* Reads the certificate and computes when it was issued. This is the time of the file, if
 * plausible. The begin in the certificate itself is an hour before it was issued, for nodes with a
 * slow clock. */
static void
look(mrd_enrol *enrol)
{
    const char *path = enrol->o.link.tls.cert_file;
    mrd_enrol_facts *facts = &enrol->facts;
    mrd_buf text = { 0 };
    mrd_str cert;
    struct stat st;
    mrd_why why = { 0 };
    mrd_err err = mrd_file_read(path, MRD_CSR_MAX, &text, &why);

    cert = (mrd_str){ (const char *) text.p, text.len };
    facts->have =
        err == MRD_OK &&
        (err = mrd_csr_fits(cert, enrol->o.link.tls.key_file, enrol->o.instance, &why)) == MRD_OK &&
        (err = mrd_csr_period(cert, &facts->from, &facts->to, &why)) == MRD_OK;
    if (facts->have && stat(path, &st) == 0) {
        int64_t came = (int64_t) st.st_mtim.tv_sec * MRD_SEC + st.st_mtim.tv_nsec;

        if (came > facts->from.ns && came < facts->to.ns)
            facts->from.ns = came;
    }
    if (!facts->have)
        snprintf(enrol->lacks, sizeof(enrol->lacks), "there is no certificate yet (%.300s)",
                 why.text);
    mrd_buf_fini(&text);
}

static mrd_dur_ns
about(mrd_dur_ns pause)
{
    uint32_t drawn;

    mrd_random(&drawn, sizeof(drawn));
    return pause - pause / 4 + (mrd_dur_ns) (drawn % 1024) * (pause / 2048);
}

static bool
finished(mrd_enrol *enrol, mrd_local_ns now)
{
    const task *t = &enrol->t;
    mrd_wall_ns wall = mrd_wall_now();

    enrol->posted = false;
    /* with this stamp, the next check finds changes that were made during the request */
    enrol->stamp = t->stamp;
    if (t->err == MRD_OK) {
        enrol->stamp = stamp_of(enrol);
        enrol->facts.refused = false;
        look(enrol);
        mrd_log(MRD_LOG_INFO, "AGT-CERT",
                "The node has a new certificate: node=%s by=%s valid_hours=%" PRId64,
                enrol->o.instance, t->by, (int64_t) ((t->got.ns - wall.ns) / HOUR));
        /* If the new certificate is already expired by this node's clock, it counts as a failure,
         * so that the pause before the next attempt grows. */
        enrol->failures =
            enrol->facts.have && wall.ns < enrol->facts.to.ns ? 0 : enrol->failures + 1;
    } else {
        enrol->failures++;
        if (!enrol->facts.have)
            snprintf(enrol->lacks, sizeof(enrol->lacks), "there is no certificate yet: %.400s",
                     t->why.text);
    }
    enrol->next = mrd_local_add(now, about(mrd_enrol_pause(enrol->failures)));
    if (t->err != MRD_OK)
        mrd_log(MRD_LOG_WARN, "AGT-CERT",
                "The node got no new certificate, the agent asks again: node=%s failures=%u "
                "again_s=%" PRId64 " reason=%s",
                enrol->o.instance, enrol->failures,
                (int64_t) (mrd_local_diff(enrol->next, now) / MRD_SEC), t->why.text);
    return t->err == MRD_OK;
}

/* Logs an expired certificate, at once and then every hour. */
static void
say_ended(mrd_enrol *enrol, mrd_local_ns now, mrd_wall_ns wall)
{
    char at[MRD_TIME_TEXT];

    if (!enrol->facts.have) {
        if (enrol->o.token_file == NULL && enrol->said.ns == 0) {
            enrol->said = now;
            mrd_log(MRD_LOG_ERROR, "AGT-CERT",
                    "This node has no certificate, and no token to get one: node=%s reason=%s",
                    enrol->o.instance, enrol->lacks);
        }
        return;
    }
    if (wall.ns < enrol->facts.to.ns) {
        enrol->lacks[0] = '\0';
        enrol->said = (mrd_local_ns){ 0 };
        return;
    }
    snprintf(enrol->lacks, sizeof(enrol->lacks),
             "this node's certificate ended at %s by this node's clock and cannot be renewed with "
             "itself: `meridian invite %s` on the aggregator, and its output into %s",
             mrd_wall_text(enrol->facts.to, at), enrol->o.instance,
             enrol->o.token_file == NULL ? "a file for --join-token-file" : enrol->o.token_file);
    if (enrol->said.ns != 0 && mrd_local_diff(now, enrol->said) < HOUR)
        return;
    enrol->said = now;
    mrd_log(MRD_LOG_ERROR, "AGT-CERT",
            "The agent cannot connect and keeps what is recorded in its spool: node=%s reason=%s",
            enrol->o.instance, enrol->lacks);
}

bool
mrd_enrol_step(mrd_enrol *enrol, mrd_local_ns now)
{
    mrd_wall_ns wall;
    uint64_t stamp;

    if (enrol->posted)
        return mrd_job_thread_take(enrol->thread) && finished(enrol, now);
    if (mrd_local_diff(now, enrol->looked) < MRD_WAIT_ENROL_LOOK)
        return false;
    enrol->looked = now;
    wall = mrd_wall_now();
    /* if the token or certificate file was replaced, a new attempt is made at once */
    if ((stamp = stamp_of(enrol)) != enrol->stamp) {
        enrol->stamp = stamp;
        enrol->failures = 0;
        enrol->next = now;
        enrol->said = (mrd_local_ns){ 0 };
        look(enrol);
    }
    say_ended(enrol, now, wall);
    if (mrd_local_before(now, enrol->next))
        return false;
    enrol->t = (task){ .act = mrd_enrol_decide(&enrol->facts, wall),
                       .have = enrol->facts.have,
                       .counts = enrol->facts.have && wall.ns < enrol->facts.to.ns &&
                                 !enrol->facts.refused,
                       .to = enrol->facts.to,
                       .stamp = enrol->stamp,
                       .by = "" };
    if (enrol->t.act == MRD_ENROL_NOTHING)
        return false;
    enrol->posted = mrd_job_thread_post(enrol->thread, work, enrol);
    if (!enrol->posted)
        enrol->next = mrd_local_add(now, MRD_WAIT_ENROL_MIN);
    return false;
}

void
mrd_enrol_works(mrd_enrol *enrol, bool welcome, bool failed)
{
    if (!enrol->posted)
        enrol->facts.refused = !welcome && (enrol->facts.refused || failed);
}

const char *
mrd_enrol_lacks(const mrd_enrol *enrol)
{
    return enrol->lacks;
}

mrd_err
mrd_enrol_open(const mrd_enrol_options *options, mrd_enrol **ret_enrol, mrd_why *why)
{
    mrd_enrol *enrol = calloc(1, sizeof(*enrol));
    mrd_buf path = { 0 };

    if (enrol == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "--join-server");
    enrol->o = *options;
    mrd_buf_fmt(&path, "%s.next", options->link.tls.cert_file);
    enrol->next_path = mrd_buf_cstr(&path) == NULL || path.err != MRD_OK ? NULL : (char *) path.p;
    enrol->thread = mrd_job_thread_new();
    enrol->facts.token = options->token_file != NULL;
    if (enrol->next_path == NULL || enrol->thread == NULL) {
        mrd_enrol_close(enrol);
        return mrd_why_set(why, MRD_NOMEM, 0, "--join-server");
    }
    enrol->stamp = stamp_of(enrol);
    look(enrol);
    *ret_enrol = enrol;
    return MRD_OK;
}

void
mrd_enrol_close(mrd_enrol *enrol)
{
    if (enrol == NULL)
        return;
    enrol->stopping = true;
    /* nothing is freed if the thread hangs in a request, because it still uses the data */
    if (!mrd_job_thread_free(enrol->thread))
        return;
    free(enrol->next_path);
    free(enrol);
}
