#include "aggregator/access/token_review.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "aggregator/access/grants.h"
#include "aggregator/access/jwt.h"
#include "base/clock.h"
#include "base/error_list.h"
#include "base/obj.h"
#include "base/sys/pool.h"
#include "pki/csr.h"
#include "proto/fetch.h"

#define IN_POD     "/var/run/secrets/kubernetes.io/serviceaccount/"
#define PATH       "/apis/authentication.k8s.io/v1/tokenreviews"
#define EXTRA      "authentication.kubernetes.io/"
#define REFUSED_NS (10 * MRD_SEC)
#define FAILED_NS  (2 * MRD_SEC)
#define ANSWER_MAX (256u << 10)
#define REASON_MAX 200
#define EACH_NS    (MRD_SEC / 20) /* average time between two reviews of tokens */
#define BURST      50
/* Limit of the reviews that end with a refusal, for each client address: bursts of PEER_BURST, and
 * on average one per PEER_NS. */
#define PEER_NS    MRD_SEC
#define PEER_BURST 15

enum {
    ENTRIES = 1024,
    PEERS = 256,
    WAITING = 64,
    THREADS = 2,
    SECONDS = 5,
    CACHE = 30,
    CACHE_MAX = 300
};

typedef enum { EMPTY, ASKED, ACCEPTED, REFUSED, FAILED } entry_state;

typedef struct {
    char key[MRD_SHA256_HEX]; /* SHA-256 of the token */
    /* the last answer about the token; ASKED means that there is no answer yet */
    entry_state state;
    /* true while a thread reviews the token; the entry must not be used for another token then */
    bool asking;
    /* `state` is valid until `until`. A use of the entry after `refresh` requests a new review of
     * the token. */
    mrd_local_ns until, refresh;
    mrd_caller who;
    char reason[REASON_MAX];
} entry;

/* Limits the rate of refused reviews for one client address. Each pending or refused review adds
 * PEER_NS to the time `next`. A review may start while `next` is not in the future. */
typedef struct {
    uint64_t peer;
    int64_t next;
} peer_rate;

struct mrd_token_review {
    mrd_json *settings; /* immutable; owns the strings below */
    const char *audience, *ca_file, *bearer_file;
    const mrd_json *roles, *agents;
    bool owners;
    mrd_dur_ns cache;
    mrd_buf url;
    mrd_pool *pool;
    mrd_error_list errors;
    atomic_bool stopping;
    pthread_mutex_t lock; /* guards the members below; no other lock is taken under it */
    entry *entries;
    peer_rate peers[PEERS];
    /* Limits the rate of all reviews. Each review adds EACH_NS to `next`. A review may start while
     * `next` is not in the future. */
    int64_t next;
    mrd_token_review_counts counts;
    /* Guards `known` and `self`. It is held while `known` is called, and `known` may take its own
     * locks. */
    pthread_mutex_t listening;
    void (*known)(void *self);
    void *self;
};

/* A token that is being reviewed. */
typedef struct {
    char key[MRD_SHA256_HEX];
    uint64_t peer;   /* hash of the client's address */
    mrd_dur_ns left; /* time until the token expires, measured when the review was queued */
    char *token;
} job;

/* ---- The settings file ---- */

static const char *const members[] = { "audience",      "server", "ca-file", "bearer-file",
                                       "cache-seconds", "owners", "roles",   "agents" };

static mrd_err
url_set(mrd_token_review *review, const char *server, const char *path, mrd_why *why)
{
    const char *host = getenv("KUBERNETES_SERVICE_HOST"), *port = getenv("KUBERNETES_SERVICE_PORT");
    bool six = host != NULL && strchr(host, ':') != NULL;
    size_t n = server == NULL ? 0 : strlen(server);

    if (server == NULL && (host == NULL || host[0] == '\0'))
        return mrd_why_set(why, MRD_INVALID, 0,
                           "%s: 'server' is not given, and KUBERNETES_SERVICE_HOST is not set: "
                           "outside of a pod name the API server",
                           path);
    if (server == NULL) {
        mrd_buf_fmt(&review->url, "https://%s%s%s:%s" PATH, six ? "[" : "", host, six ? "]" : "",
                    port == NULL ? "443" : port);
    } else {
        while (n > 0 && server[n - 1] == '/')
            n--;
        mrd_buf_fmt(&review->url, "%.*s" PATH, (int) n, server);
    }
    return mrd_grants_url(mrd_buf_cstr(&review->url), "server", path, why);
}

/* Checks a list of names of accounts. */
static bool
names_ok(const mrd_json *list)
{
    char scratch[64], space[64];
    mrd_str name;

    for (size_t i = 0; mrd_json_is_array(list) && i < mrd_json_size(list); i++) {
        char text[512];

        if (mrd_json_type_of(mrd_json_at(list, i)) != MRD_JSON_TEXT ||
            mrd_json_text(mrd_json_at(list, i), scratch, &name) != MRD_OK ||
            name.len >= sizeof(text))
            return false;
        memcpy(text, name.p, name.len);
        text[name.len] = '\0';
        if (!mrd_grants_namespace(text, space, sizeof(space)))
            return false;
    }
    return mrd_json_is_array(list);
}

static mrd_err
settings_read(mrd_token_review *review, const char *path, mrd_why *why)
{
    const char *server;
    mrd_json *json = review->settings;
    int64_t seconds = mrd_json_int(json, "cache-seconds", CACHE);
    mrd_err err;

    if ((err = mrd_grants_text(json, "audience", true, path, &review->audience, why)) != MRD_OK ||
        (err = mrd_grants_text(json, "server", false, path, &server, why)) != MRD_OK ||
        (err = mrd_grants_text(json, "ca-file", false, path, &review->ca_file, why)) != MRD_OK ||
        (err = mrd_grants_text(json, "bearer-file", server != NULL, path, &review->bearer_file,
                               why)) != MRD_OK ||
        (err = mrd_grants_roles(json, path, &review->roles, why)) != MRD_OK ||
        (err = url_set(review, server, path, why)) != MRD_OK)
        return err;
    if (seconds < 1 || seconds > CACHE_MAX ||
        (mrd_json_get(json, "cache-seconds") != NULL &&
         mrd_json_type_of(mrd_json_get(json, "cache-seconds")) != MRD_JSON_INT))
        return mrd_why_set(why, MRD_INVALID, 0, "%s: 'cache-seconds' must be 1 to %d", path,
                           CACHE_MAX);
    if (server == NULL) {
        review->ca_file = review->ca_file == NULL ? IN_POD "ca.crt" : review->ca_file;
        review->bearer_file = review->bearer_file == NULL ? IN_POD "token" : review->bearer_file;
    }
    review->cache = seconds * MRD_SEC;
    review->owners = mrd_json_bool(json, "owners", true);
    review->agents = mrd_json_get(json, "agents");
    if (review->agents != NULL && !names_ok(review->agents))
        return mrd_why_set(why, MRD_INVALID, 0,
                           "%s: 'agents' must be a list of accounts, "
                           "system:serviceaccount:NAMESPACE:NAME",
                           path);
    if (!review->owners && review->roles == NULL && review->agents == NULL)
        return mrd_why_set(
            why, MRD_INVALID, 0,
            "%s: without 'roles', and with 'owners' false, no client could do anything", path);
    return MRD_OK;
}

/* ---- Answers of the API server ---- */

/* Returns true if the list, a JSON array, contains this text. */
static bool
list_has(const mrd_json *list, const char *text)
{
    mrd_json *one = mrd_json_new_array();
    bool found = mrd_json_append(one, mrd_json_new_str(text)) == MRD_OK &&
                 mrd_json_is_array(list) && mrd_grants_has(list, one);

    mrd_json_free(one);
    return found;
}

/* Returns a new JSON list with the account's name and the names of its groups. The settings give
 * roles to these names. */
static mrd_json *
names_of(const char *user, const mrd_json *groups)
{
    mrd_json *names = mrd_json_new_array();

    mrd_json_append(names, mrd_json_new_str(user));
    for (size_t i = 0; mrd_json_is_array(groups) && i < mrd_json_size(groups); i++)
        mrd_json_append(names, mrd_json_copy(mrd_json_at(groups, i)));
    return names;
}

/* Returns a value of the object "extra" in the API server's answer, "" if it is absent. Each value
 * of this object is a list with one string. */
static const char *
extra_of(const mrd_json *user, const char *name)
{
    const mrd_json *extra = mrd_json_get(user, "extra"), *list;
    char scratch[64];
    mrd_str text = { 0 };

    list = mrd_json_is_object(extra) ? mrd_json_get(extra, name) : NULL;
    if (!mrd_json_is_array(list) || mrd_json_size(list) != 1 ||
        mrd_json_type_of(mrd_json_at(list, 0)) != MRD_JSON_TEXT)
        return "";
    /* the returned text belongs to the document and is NUL-terminated; `scratch` is for numbers
     * only */
    return mrd_json_text(mrd_json_at(list, 0), scratch, &text) == MRD_OK ? text.p : "";
}

mrd_err
mrd_token_review_read(mrd_str text, const char *audience, mrd_reviewed *ret_reviewed, mrd_why *why)
{
    mrd_json *doc = NULL, *status, *user;
    const char *name = "";
    mrd_err err = mrd_json_parse_up_to(text, ANSWER_MAX, "the API server's answer", &doc, why);

    if (err != MRD_OK)
        return err;
    status = mrd_json_is_object(doc) ? mrd_json_get(doc, "status") : NULL;
    user = mrd_json_is_object(status) ? mrd_json_get(status, "user") : NULL;
    if (mrd_json_is_object(user))
        name = mrd_json_str(user, "username", "");
    if (!mrd_json_is_object(status) || strcmp(mrd_json_str(doc, "kind", ""), "TokenReview") != 0)
        err = mrd_why_set(why, MRD_TYPE, 0, "the API server's answer is no TokenReview");
    else if (!mrd_json_bool(status, "authenticated", false))
        err = mrd_why_set(why, MRD_AUTH, 0,
                          "the API server does not accept this token: it has expired, its pod or "
                          "account was deleted, or it is for another audience");
    else if (!list_has(mrd_json_get(status, "audiences"), audience))
        /* An API server that does not support audiences leaves them out of its answer. Such an
         * answer must be refused, because a token for any other service would be valid here. */
        err = mrd_why_set(why, MRD_AUTH, 0,
                          "the API server does not say that the token is for '%s'", audience);
    else if (name[0] == '\0')
        err = mrd_why_set(why, MRD_TYPE, 0, "the API server's answer names no user");
    if (err != MRD_OK) {
        mrd_json_free(doc);
        return err;
    }
    *ret_reviewed = (mrd_reviewed){ .doc = doc,
                                    .user = name,
                                    .names = names_of(name, mrd_json_get(user, "groups")),
                                    .pod = extra_of(user, EXTRA "pod-name"),
                                    .pod_uid = extra_of(user, EXTRA "pod-uid"),
                                    .node = extra_of(user, EXTRA "node-name") };
    return MRD_OK;
}

void
mrd_reviewed_fini(mrd_reviewed *reviewed)
{
    mrd_json_free(reviewed->names);
    mrd_json_free(reviewed->doc);
    *reviewed = (mrd_reviewed){ 0 };
}

mrd_err
mrd_token_review_pod(mrd_str text, const mrd_reviewed *reviewed, char *to, size_t size,
                     mrd_why *why)
{
    const mrd_json *meta = NULL, *spec = NULL;
    const char *account = strrchr(reviewed->user, ':'), *node = "";
    mrd_json *doc = NULL;
    mrd_err err = mrd_json_parse_up_to(text, ANSWER_MAX, "the API server's answer", &doc, why);

    if (err != MRD_OK)
        return err;
    if (mrd_json_is_object(doc)) {
        meta = mrd_json_get(doc, "metadata");
        spec = mrd_json_get(doc, "spec");
    }
    if (!mrd_json_is_object(meta) || !mrd_json_is_object(spec) ||
        strcmp(mrd_json_str(doc, "kind", ""), "Pod") != 0)
        err = mrd_why_set(why, MRD_TYPE, 0, "the API server's answer is no Pod");
    else if (reviewed->pod_uid[0] == '\0' ||
             strcmp(mrd_json_str(meta, "uid", ""), reviewed->pod_uid) != 0 ||
             strcmp(mrd_json_str(meta, "name", ""), reviewed->pod) != 0)
        err = mrd_why_set(why, MRD_AUTH, 0, "the token is of another pod, which is gone");
    else if (account == NULL ||
             strcmp(mrd_json_str(spec, "serviceAccountName", ""), account + 1) != 0)
        err = mrd_why_set(why, MRD_AUTH, 0, "the token's pod has another service account");
    else if ((node = mrd_json_str(spec, "nodeName", ""))[0] == '\0' || strlen(node) >= size)
        err = mrd_why_set(why, MRD_AUTH, 0, "the token's pod is on no node");
    else
        memcpy(to, node, strlen(node) + 1);
    mrd_json_free(doc);
    return err;
}

/* Sets *to to the role and attributes of an account that is not an agent. */
static mrd_err
caller_of(const mrd_token_review *review, const mrd_reviewed *reviewed, mrd_caller *to,
          mrd_why *why)
{
    *to = MRD_CALLER(mrd_grants_role(review->roles, reviewed->names));
    if (to->role != MRD_ROLE_NONE)
        return MRD_OK;
    if (!review->owners)
        return mrd_why_set(why, MRD_AUTH, 0, "the token's account has no role here");
    if (!mrd_grants_namespace(reviewed->user, to->space, sizeof(to->space)))
        return mrd_why_set(why, MRD_AUTH, 0,
                           "the token is of no service account, and its groups have no role here");
    to->role = MRD_ROLE_OWNER;
    return MRD_OK;
}

/* ---- Requests to the API server, made on a thread of the pool ---- */

/* Returns an error that explains an unexpected HTTP status, which shows that this installation is
 * misconfigured. */
static mrd_err
status_error(const mrd_token_review *review, unsigned status, mrd_why *why)
{
    const char *hint = "";

    if (status == 401)
        hint = ": it does not accept the aggregator's own token (bearer-file)";
    else if (status == 403)
        hint = ": the aggregator's account may not create tokenreviews, which the ClusterRole "
               "system:auth-delegator allows";
    else if (status >= 300 && status < 400)
        hint = ": a redirection, which is not followed";
    return mrd_why_set(why, MRD_NET, 0, "%.*s answers with status %u%s", (int) review->url.len,
                       review->url.p, status, hint);
}

/* Returns true if the name can be a component of a path of the Kubernetes API. */
static bool
path_part_ok(const char *name)
{
    return name[0] != '\0' && name[0] != '.' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789.-") == strlen(name);
}

/* Requests the token's pod from the API server, and gets the pod's node. This is needed only if the
 * answer to the review did not name the node. */
static mrd_err
ask_node(mrd_token_review *review, const mrd_reviewed *reviewed, char *to, size_t size,
         mrd_why *why)
{
    char space[64];
    mrd_buf url = { 0 }, answer = { 0 };
    unsigned status = 0;
    mrd_err err = MRD_OK;

    if (!mrd_grants_namespace(reviewed->user, space, sizeof(space)) || !path_part_ok(space) ||
        !path_part_ok(reviewed->pod))
        return mrd_why_set(why, MRD_AUTH, 0, "the token's pod has no name of Kubernetes");
    mrd_buf_fmt(&url, "%.*s/api/v1/namespaces/%s/pods/%s", (int) (review->url.len - strlen(PATH)),
                review->url.p, space, reviewed->pod);
    mrd_buf_cstr(&url);
    err = url.err != MRD_OK ? mrd_why_set(why, MRD_NOMEM, 0, "token review")
                            : mrd_fetch(&(mrd_fetch_request){ .url = (const char *) url.p,
                                                              .ca_file = review->ca_file,
                                                              .bearer_file = review->bearer_file,
                                                              .max = ANSWER_MAX,
                                                              .seconds = SECONDS,
                                                              .stopped = &review->stopping },
                                        &answer, &status, why);
    if (err == MRD_OK && status == 404)
        err = mrd_why_set(why, MRD_AUTH, 0, "the token's pod is gone");
    else if (err == MRD_OK && status == 403)
        err = mrd_why_set(why, MRD_NET, 0,
                          "%s answers with status 403: the API server does not say on which node a "
                          "token's pod runs (before 1.30), and the aggregator's account may not "
                          "get pods in namespace %s",
                          (const char *) url.p, space);
    else if (err == MRD_OK && status != 200)
        err =
            mrd_why_set(why, MRD_NET, 0, "%s answers with status %u", (const char *) url.p, status);
    if (err == MRD_OK)
        err = mrd_token_review_pod((mrd_str){ (const char *) answer.p, answer.len }, reviewed, to,
                                   size, why);
    mrd_buf_fini(&url);
    mrd_buf_fini(&answer);
    return err;
}

/* Identifies an agent. An agent that runs in a pod is the agent of the pod's node. */
static mrd_err
agent_of(mrd_token_review *review, const mrd_reviewed *reviewed, mrd_caller *to, mrd_why *why)
{
    mrd_err err = MRD_OK;

    *to = MRD_CALLER(MRD_ROLE_AGENT);
    if (reviewed->pod[0] == '\0')
        return mrd_why_set(
            why, MRD_AUTH, 0,
            "the token is bound to no pod, so that the API server cannot say on which "
            "node its holder runs: an agent needs the projected token of its pod");
    if (reviewed->node[0] == '\0')
        err = ask_node(review, reviewed, to->node, sizeof(to->node), why);
    else if (strlen(reviewed->node) < sizeof(to->node))
        memcpy(to->node, reviewed->node, strlen(reviewed->node) + 1);
    if (err == MRD_OK && !mrd_csr_name_ok(mrd_str_of(to->node)))
        err =
            mrd_why_set(why, MRD_AUTH, 0,
                        "the node's name '%.80s' cannot be an instance id in a certificate, which "
                        "has at most 64 characters: agents of such nodes need the shared token",
                        reviewed->node[0] == '\0' ? to->node : reviewed->node);
    return err;
}

static mrd_err
ask(mrd_token_review *review, const char *token, mrd_caller *ret_caller, mrd_why *why)
{
    mrd_buf body = { 0 }, answer = { 0 };
    mrd_reviewed reviewed = { 0 };
    unsigned status;
    mrd_err err;

    /* The buffer has its full size from the start, because a growing buffer leaves copies of the
     * token in memory. */
    mrd_buf_room(&body, strlen(token) * 6 + strlen(review->audience) * 6 + 256);
    mrd_buf_text(&body, "{\"apiVersion\":\"authentication.k8s.io/v1\",\"kind\":\"TokenReview\","
                        "\"spec\":{\"audiences\":[");
    mrd_json_quote(&body, mrd_str_of(review->audience));
    mrd_buf_text(&body, "],\"token\":");
    mrd_json_quote(&body, mrd_str_of(token));
    mrd_buf_text(&body, "}}");
    err = body.err != MRD_OK ? mrd_why_set(why, MRD_NOMEM, 0, "token review")
                             : mrd_fetch(&(mrd_fetch_request){ .url = (const char *) review->url.p,
                                                               .ca_file = review->ca_file,
                                                               .bearer_file = review->bearer_file,
                                                               .json = mrd_buf_cstr(&body),
                                                               .max = ANSWER_MAX,
                                                               .seconds = SECONDS,
                                                               .stopped = &review->stopping },
                                         &answer, &status, why);
    if (err == MRD_OK && status != 201 && status != 200)
        err = status_error(review, status, why);
    else if (err == MRD_OK)
        err = mrd_token_review_read((mrd_str){ (const char *) answer.p, answer.len },
                                    review->audience, &reviewed, why);
    if (err == MRD_OK)
        err = list_has(review->agents, reviewed.user)
                  ? agent_of(review, &reviewed, ret_caller, why)
                  : caller_of(review, &reviewed, ret_caller, why);
    mrd_reviewed_fini(&reviewed);
    if (body.p != NULL)
        explicit_bzero(body.p, body.cap);
    /* wiped, because the answer repeats the token, which must not stay in memory */
    if (answer.p != NULL)
        explicit_bzero(answer.p, answer.cap);
    mrd_buf_fini(&body);
    mrd_buf_fini(&answer);
    return err;
}

static entry *
find(mrd_token_review *review, const char *key)
{
    for (size_t i = 0; i < ENTRIES; i++)
        if (review->entries[i].state != EMPTY && strcmp(review->entries[i].key, key) == 0)
            return &review->entries[i];
    return NULL;
}

/* Returns the entry of an address in the table of rates. A new address replaces the address with
 * the fewest recent refusals. The caller holds the lock. */
static peer_rate *
peer_of(mrd_token_review *review, uint64_t peer, int64_t now)
{
    peer_rate *least = review->peers;

    for (size_t i = 0; i < PEERS; i++) {
        if (review->peers[i].peer == peer)
            return &review->peers[i];
        if (review->peers[i].next < least->next)
            least = &review->peers[i];
    }
    *least = (peer_rate){ .peer = peer, .next = now - PEER_BURST * PEER_NS };
    return least;
}

static void
answered(mrd_token_review *review, const job *j, mrd_err err, const mrd_caller *who,
         const mrd_why *why)
{
    entry *item = find(review, j->key);
    int64_t now = mrd_local_now().ns;
    mrd_dur_ns life = review->cache < j->left ? review->cache : j->left;

    review->counts.refused += err == MRD_AUTH;
    review->counts.failed += err != MRD_OK && err != MRD_AUTH;
    /* only refused tokens count for the limit of the address, so the time that `submit` added is
     * subtracted again */
    if (err != MRD_AUTH)
        peer_of(review, j->peer, now)->next -= PEER_NS;
    if (item == NULL)
        return;
    item->asking = false;
    if (err == MRD_OK) {
        item->state = ACCEPTED;
        item->who = *who;
        item->until.ns = now + life;
        item->refresh.ns = now + life / 2;
    } else if (err == MRD_AUTH) {
        item->state = REFUSED;
        item->until.ns = item->refresh.ns = now + REFUSED_NS;
    } else if (item->state != ACCEPTED || now >= item->until.ns) {
        item->state = FAILED; /* the token got no valid answer, so it is refused for a while */
        item->until.ns = item->refresh.ns = now + FAILED_NS;
    } else {
        item->refresh.ns = now + FAILED_NS;
    }
    /* The client's message has no details of errors of this installation, which are in the log. */
    if (err != MRD_OK)
        snprintf(item->reason, sizeof(item->reason), "%.*s", REASON_MAX - 1,
                 err == MRD_AUTH ? why->text
                                 : "the API server could not be asked whose token this is (the "
                                   "aggregator's log says why)");
}

static void
job_free(job *j)
{
    if (j == NULL)
        return;
    if (j->token != NULL)
        explicit_bzero(j->token, strlen(j->token));
    free(j->token);
    free(j);
}

static void
work(void *self, void *arg)
{
    mrd_token_review *review = self;
    job *j = arg;
    mrd_caller who = MRD_CALLER(MRD_ROLE_NONE);
    mrd_why why = { 0 };
    mrd_err err = review->stopping ? MRD_CANCELLED : ask(review, j->token, &who, &why);

    if (err != MRD_OK && err != MRD_AUTH && err != MRD_CANCELLED)
        mrd_error_list_add(&review->errors, err, why.text);
    pthread_mutex_lock(&review->lock);
    answered(review, j, err, &who, &why);
    pthread_mutex_unlock(&review->lock);
    job_free(j);
    pthread_mutex_lock(&review->listening);
    if (review->known != NULL)
        review->known(review->self);
    pthread_mutex_unlock(&review->listening);
}

/* ---- Identifying the holder of a token ---- */

/* Returns an entry of the cache that may be used for a new answer. Prefers a free entry, then an
 * expired one, then one with a refusal, then the accepted token that expires first. Returns NULL if
 * all entries are being reviewed. The caller holds the lock. */
static entry *
place(mrd_token_review *review, int64_t now)
{
    entry *best = NULL;
    int64_t least = INT64_MAX;

    for (size_t i = 0; i < ENTRIES; i++) {
        entry *item = &review->entries[i];
        int64_t worth = item->state == EMPTY      ? INT64_MIN
                        : item->until.ns <= now   ? 0
                        : item->state == ACCEPTED ? item->until.ns
                                                  : 1;

        if (!item->asking && worth < least) {
            best = item;
            least = worth;
        }
    }
    return best;
}

/* Returns true if another review may start. Allows bursts of up to BURST reviews and an average
 * of one per EACH_NS, so that invalid tokens cannot flood the API server. The caller holds the
 * lock. */
static bool
rate_allows(mrd_token_review *review, int64_t now)
{
    if (review->next < now - BURST * EACH_NS)
        review->next = now - BURST * EACH_NS;
    if (review->next > now)
        return false;
    review->next += EACH_NS;
    return true;
}

/* Returns true if this address may have another review. Each address has its own limit of refused
 * reviews, so that one client cannot use up the limit for all. The caller holds the lock. */
static bool
peer_allows(mrd_token_review *review, uint64_t peer, int64_t now)
{
    peer_rate *rate = peer_of(review, peer, now);

    if (rate->next < now - PEER_BURST * PEER_NS)
        rate->next = now - PEER_BURST * PEER_NS;
    return rate->next <= now;
}

/* Queues a review of the token. Marks the token's cache entry `item`, or a new entry if `item` is
 * NULL, as being reviewed. The caller holds the lock. */
static mrd_err
submit(mrd_token_review *review, entry *item, const char *key, uint64_t peer, mrd_str token,
       mrd_dur_ns left, mrd_why *why)
{
    int64_t now = mrd_local_now().ns;
    bool fresh = item == NULL;
    job *j;

    if (!peer_allows(review, peer, now))
        return mrd_why_set(why, MRD_AGAIN, 0,
                           "too many tokens from this address were refused, try again");
    if (!rate_allows(review, now) || (fresh && (item = place(review, now)) == NULL))
        return mrd_why_set(why, MRD_AGAIN, 0, "too many tokens are being asked about, try again");
    if ((j = calloc(1, sizeof(*j))) == NULL || (j->token = mrd_str_dup(token)) == NULL) {
        job_free(j);
        return mrd_why_set(why, MRD_AGAIN, 0, "out of memory");
    }
    memcpy(j->key, key, sizeof(j->key));
    j->left = left;
    j->peer = peer;
    if (!mrd_pool_put(review->pool, work, review, j)) {
        job_free(j);
        return mrd_why_set(why, MRD_AGAIN, 0, "too many tokens are being asked about, try again");
    }
    if (fresh) {
        *item = (entry){ .state = ASKED };
        memcpy(item->key, key, sizeof(item->key));
    }
    item->asking = true;
    peer_of(review, peer, now)->next += PEER_NS;
    review->counts.asked++;
    return MRD_OK;
}

/* Checks the token's own claims, without the API server. Refuses a token that the API server would
 * refuse. */
static mrd_err
look(const mrd_token_review *review, mrd_str token, mrd_dur_ns *ret_left, mrd_why *why)
{
    mrd_json *claims = NULL;
    int64_t seconds = 0;
    mrd_err err = mrd_jwt_peek(token, &claims, why);

    if (err != MRD_OK)
        return MRD_AUTH;
    if (!mrd_jwt_is_for(claims, review->audience))
        err = mrd_why_set(why, MRD_AUTH, 0,
                          "the token is for another audience than '%s' (serviceAccountToken with "
                          "audience, or kubectl create token --audience)",
                          review->audience);
    else if (!mrd_jwt_left(claims, mrd_wall_now(), &seconds))
        err = mrd_why_set(why, MRD_AUTH, 0, "the token has expired, or does not say when it does");
    *ret_left = seconds * MRD_SEC;
    mrd_json_free(claims);
    return err;
}

mrd_err
mrd_token_review_identify(mrd_token_review *review, uint64_t peer, mrd_str token,
                          mrd_caller *ret_caller, mrd_why *why)
{
    char key[MRD_SHA256_HEX];
    mrd_dur_ns left;
    entry *item;
    int64_t now;
    mrd_err err = look(review, token, &left, why);
    mrd_sha256 *sha = err == MRD_OK ? mrd_sha256_new() : NULL;

    if (err != MRD_OK)
        return err;
    if (sha == NULL)
        return mrd_why_set(why, MRD_AGAIN, 0, "out of memory");
    mrd_sha256_add(sha, token.p, token.len);
    mrd_sha256_hex(sha, key);
    mrd_sha256_free(sha);
    pthread_mutex_lock(&review->lock);
    item = find(review, key);
    now = mrd_local_now().ns;
    if (item != NULL && item->state != ASKED && now < item->until.ns) {
        if (item->state == ACCEPTED) {
            *ret_caller = item->who;
            /* The cached answer is still valid. A new review is started before it expires, so that
             * no request has to wait. */
            if (now >= item->refresh.ns && !item->asking)
                submit(review, item, key, peer, token, left, NULL);
        } else {
            err = mrd_why_set(why, item->state == REFUSED ? MRD_AUTH : MRD_AGAIN, 0, "%s",
                              item->reason);
        }
    } else {
        err = item != NULL && item->asking ? MRD_OK
                                           : submit(review, item, key, peer, token, left, why);
        if (err == MRD_OK)
            err = mrd_why_set(why, MRD_BUSY, 0, "the API server has not answered yet");
    }
    pthread_mutex_unlock(&review->lock);
    return err;
}

void
mrd_token_review_listen(mrd_token_review *review, void (*known)(void *self), void *self)
{
    pthread_mutex_lock(&review->listening);
    review->known = known;
    review->self = self;
    pthread_mutex_unlock(&review->listening);
}

void
mrd_token_review_forget(mrd_token_review *review)
{
    pthread_mutex_lock(&review->lock);
    for (size_t i = 0; i < ENTRIES; i++)
        review->entries[i].until.ns = 0;
    pthread_mutex_unlock(&review->lock);
}

bool
mrd_token_review_next_error(mrd_token_review *review, mrd_why *ret_why)
{
    return mrd_error_list_take(&review->errors, ret_why);
}

void
mrd_token_review_count(mrd_token_review *review, mrd_token_review_counts *ret_counts)
{
    pthread_mutex_lock(&review->lock);
    *ret_counts = review->counts;
    pthread_mutex_unlock(&review->lock);
}

/* ---- Opening and closing ---- */

mrd_err
mrd_token_review_open(const char *path, mrd_token_review **ret_review, mrd_why *why)
{
    mrd_token_review *review = calloc(1, sizeof(*review));
    mrd_err err;

    if (review == NULL || (review->entries = calloc(ENTRIES, sizeof(*review->entries))) == NULL) {
        free(review);
        return mrd_why_set(why, MRD_NOMEM, 0, "--token-review");
    }
    pthread_mutex_init(&review->lock, NULL);
    pthread_mutex_init(&review->listening, NULL);
    mrd_error_list_init(&review->errors);
    err = mrd_grants_load("--token-review", path, members, MRD_COUNT(members), &review->settings,
                          why);
    if (err == MRD_OK)
        err = settings_read(review, path, why);
    if (err == MRD_OK)
        err = mrd_pool_open("--token-review", THREADS, WAITING, &review->pool, why);
    if (err != MRD_OK)
        mrd_token_review_close(review);
    else
        *ret_review = review;
    return err;
}

void
mrd_token_review_close(mrd_token_review *review)
{
    if (review == NULL)
        return;
    review->stopping = true;
    mrd_pool_close(review->pool);
    mrd_json_free(review->settings);
    mrd_buf_fini(&review->url);
    mrd_error_list_fini(&review->errors);
    pthread_mutex_destroy(&review->lock);
    pthread_mutex_destroy(&review->listening);
    free(review->entries);
    free(review);
}
