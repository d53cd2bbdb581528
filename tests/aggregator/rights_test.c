/* Tests access rights: every route with every role, for sessions of the caller, of another owner,
 * without an owner, and for a session that does not exist. The grid below is written by hand, and a
 * route that it lacks fails the test. */
#include "aggregator/access/rights.h"

#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "aggregator/aggregator.h"
#include "aggregator/api/http.h"
#include "base/conf/json.h"
#include "base/obj.h"
#include "tests/aggregator/jwt_make.h"
#include "tests/check.h"
#include "tests/wait.h"

/* The rights on each route, one letter per role (none, owner, read, operator, admin, agent). `a`
 * means all sessions and the cluster, `o` only the caller's own sessions, and `-` nothing. */
static const struct {
    const char *method, *path, *roles;
} grid[] = {
    { "GET", "/", "aaaaaa" },
    { "GET", "/web/{file*}", "aaaaaa" },
    { "GET", "/api/v1/openapi.json", "aaaaaa" },
    { "GET", "/healthz", "aaaaaa" },
    { "GET", "/readyz", "aaaaaa" },
    { "GET", "/api/v1/formats", "aaaaaa" },
    { "GET", "/metrics", "--aaa-" },
    { "GET", "/api/v1/self", "-aaaa-" },
    { "GET", "/api/v1/hangs", "-oaaa-" },
    { "GET", "/api/v1/jobs", "-oaaa-" },
    { "GET", "/api/v1/jobs/{id}", "-oaaa-" },
    { "GET", "/api/v1/nodes", "--aaa-" },
    { "GET", "/api/v1/nodes/{id}", "--aaa-" },
    { "DELETE", "/api/v1/nodes/{id}", "----a-" },
    { "GET", "/api/v1/models", "--aaa-" },
    { "GET", "/api/v1/sessions", "-oaaa-" },
    { "DELETE", "/api/v1/sessions", "-o--a-" },
    { "POST", "/api/v1/sessions", "---aa-" },
    { "POST", "/api/v1/trigger", "---aa-" },
    { "POST", "/api/v1/invitations", "----a-" },
    { "POST", "/api/v1/certificates", "aaaaaa" },
    { "POST", "/api/v1/certificates/account", "-----a" },
    { "GET", "/api/v1/sessions/{id}", "-oaaa-" },
    { "DELETE", "/api/v1/sessions/{id}", "-o--a-" },
    { "POST", "/api/v1/sessions/{id}/stop", "---aa-" },
    { "POST", "/api/v1/sessions/{id}/pause", "---aa-" },
    { "POST", "/api/v1/sessions/{id}/resume", "---aa-" },
    { "POST", "/api/v1/sessions/{id}/change", "---aa-" },
    { "POST", "/api/v1/sessions/{id}/trigger", "---aa-" },
    { "POST", "/api/v1/sessions/{id}/merge", "---aa-" },
    { "POST", "/api/v1/sessions/{id}/convert", "---aa-" },
    { "GET", "/api/v1/sessions/{id}/profile", "-oaaa-" },
    { "GET", "/api/v1/sessions/{id}/profile/{file}", "-oaaa-" },
    { "GET", "/api/v1/sessions/{id}/clocks", "-oaaa-" },
    { "GET", "/api/v1/sessions/{id}/clocks/{node}", "-oaaa-" },
    { "GET", "/api/v1/sessions/{id}/models", "-oaaa-" },
    { "GET", "/api/v1/sessions/{id}/artifacts", "-oaaa-" },
    { "GET", "/api/v1/sessions/{id}/artifacts/{sha256}", "-oaaa-" },
    { "GET", "/api/v1/sessions/{id}/journal", "-oaaa-" },
    { "GET", "/api/v1/sessions/{id}/journal/{node}/{segment}", "-oaaa-" },
};

static const char *
roles_of(const mrd_http_route *r)
{
    for (size_t i = 0; i < MRD_COUNT(grid); i++)
        if (strcmp(grid[i].method, r->method) == 0 && strcmp(grid[i].path, r->path) == 0)
            return grid[i].roles;
    return NULL;
}

/* The tokens of the test. This order also defines which kind of session each owner has. */
enum { TOKEN_NONE, TOKEN_UNKNOWN, TOKEN_ALICE, TOKEN_BOB, TOKEN_CUT, TOKENS_MORE };
static const struct {
    const char *token;
    mrd_role role;
    char owns; /* kind of session */
} tokens[] = {
    { NULL, MRD_ROLE_NONE, 0 },
    { "a-token-that-nobody-knows", MRD_ROLE_NONE, 0 },
    { "token-of-alice-0123456789", MRD_ROLE_OWNER, 'a' },
    { "token-of-bob-01234567890", MRD_ROLE_OWNER, 'b' },
    { "token-of-alice-012345678", MRD_ROLE_NONE, 0 },
    { "reading-token-0123456789", MRD_ROLE_READ, 0 },
    { "operator-token-0123456789", MRD_ROLE_OPERATOR, 0 },
    { "admin-token-0123456789", MRD_ROLE_ADMIN, 0 },
    { "control-token-0123456789", MRD_ROLE_ADMIN, 0 },
    { "agent-token-0123456789", MRD_ROLE_AGENT, 0 },
};
/* Sessions of Alice, of Bob, of an operator, of a job without a key, and none. */
static const char kinds[] = "abon-";

/* Each request that may delete has its own session. */
static const char *
id_of(size_t token, size_t kind, bool bulk)
{
    static char id[32];

    snprintf(id, sizeof(id), "20260101-0000%02zu-%x%x%02x", token, 0xa, bulk, (unsigned) kind);
    return id;
}

static void
write_text(const char *path, const char *text)
{
    CHECK_ERR(path,
              mrd_write_file(path, (mrd_bytes){ (const uint8_t *) text, strlen(text) }, 0600, NULL),
              MRD_OK);
}

/* Opens an aggregator on the sessions of test_tmp(). `oidc` is a file of settings, or NULL. */
static mrd_aggregator *
open_aggregator(const char *oidc)
{
    char path[128];
    mrd_aggregator_options o = { .store = test_tmp(),
                                 .tokens = path,
                                 .oidc = oidc,
                                 .data_url = "inproc://rights-d",
                                 .control_url = "inproc://rights-c",
                                 .http_address = "127.0.0.1",
                                 .disk_reserve = -1 };
    mrd_aggregator *a = NULL;
    mrd_why why = { 0 };

    snprintf(path, sizeof(path), "%s/tokens.json", test_tmp());
    write_text(path, "{\"read\":[\"reading-token-0123456789\"],"
                     "\"operator\":[\"operator-token-0123456789\"],"
                     "\"admin\":[\"admin-token-0123456789\"],"
                     "\"control\":[\"control-token-0123456789\"],"
                     "\"agent\":[\"agent-token-0123456789\"]}");
    if (mrd_aggregator_open(&o, &a, &why) != MRD_OK)
        fprintf(stderr, "%s\n", why.text);
    return a;
}

/* Stores the manifest of a session that ended. */
static void
store_manifest(const char *id, const char *members)
{
    char path[256];
    mrd_buf text = { 0 };

    mrd_buf_fmt(
        &text,
        "{\"version\":1,\"id\":\"%s\",\"state\":\"complete\",\"created_ns\":1767225600000000000,"
        "\"go_ns\":1767225600000000000,\"stop_ns\":1767225601000000000,%s}",
        id, members);
    snprintf(path, sizeof(path), "%s/sessions", test_tmp());
    mkdir(path, 0700);
    snprintf(path, sizeof(path), "%s/sessions/%s", test_tmp(), id);
    CHECK(mkdir(path, 0700) == 0);
    snprintf(path, sizeof(path), "%s/sessions/%s/session.json", test_tmp(), id);
    write_text(path, mrd_buf_cstr(&text));
    mrd_buf_fini(&text);
}

static void
store_session(size_t token, size_t kind, bool bulk)
{
    char digest[MRD_SHA256_HEX] = "", keys[128] = "", job[256] = "", members[512];

    if (kinds[kind] == 'a' || kinds[kind] == 'b') {
        mrd_str key = mrd_str_of(tokens[kinds[kind] == 'a' ? TOKEN_ALICE : TOKEN_BOB].token);

        CHECK(mrd_auth_digest(key, digest));
        snprintf(keys, sizeof(keys), ",\"owner_keys\":[\"%s\"]", digest);
    }
    if (kinds[kind] != 'o')
        snprintf(job, sizeof(job), ",\"job\":{\"key\":\"x//%zu/0\",\"uid\":5%s}", token, keys);
    snprintf(members, sizeof(members), "\"jobs\":[{\"job\":\"7\",\"user\":\"%c\"}]%s", kinds[kind],
             job);
    store_manifest(id_of(token, kind, bulk), members);
}

static mrd_aggregator *
aggregator(void)
{
    for (size_t t = 0; t < MRD_COUNT(tokens); t++) {
        for (size_t k = 0; kinds[k] != '-'; k++) {
            store_session(t, k, false);
            store_session(t, k, true);
        }
    }
    return open_aggregator(NULL);
}

/* Returns the reply without its date. Valid until the next call but one. */
static const char *
ask(mrd_aggregator *a, const char *method, const char *path, const char *token)
{
    static mrd_buf answers[2];
    static unsigned turn;
    mrd_buf *answer = &answers[turn++ % 2];
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons(mrd_aggregator_http_port(a)),
                              .sin_addr = { htonl(INADDR_LOOPBACK) } };
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    char request[2048], part[65536], *date;
    ssize_t n;

    snprintf(request, sizeof(request),
             "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s%s%s%s\r\n", method, path,
             token == NULL ? "" : "Authorization: Bearer ", token == NULL ? "" : token,
             token == NULL ? "" : "\r\n",
             strcmp(method, "POST") == 0 ? "Content-Length: 0\r\n" : "");
    mrd_buf_reset(answer);
    if (connect(fd, (struct sockaddr *) &to, sizeof(to)) == 0 &&
        write(fd, request, strlen(request)) > 0) {
        while ((n = read(fd, part, sizeof(part))) > 0)
            mrd_buf_add(answer, part, (size_t) n);
    }
    close(fd);
    if ((date = strstr(mrd_buf_cstr(answer), "\r\nDate: ")) != NULL)
        memset(date + 8, '.', strcspn(date + 8, "\r"));
    return mrd_buf_cstr(answer);
}

static int
status(const char *answer)
{
    return strncmp(answer, "HTTP/1.1 ", 9) == 0 ? atoi(answer + 9) : 0;
}

/* Fills a route's pattern with that session. */
static void
fill(const char *pattern, const char *id, char *to, size_t size)
{
    static const struct {
        const char *name, *value;
    } values[] = { { "{file*}", "app.js" },       { "{file}", "SHA256SUMS" }, { "{node}", "i-1" },
                   { "{segment}", "000001.mrj" }, { "{sha256}", "00ff" },     { "{id}", NULL } };
    size_t n = 0;

    while (*pattern != '\0' && n + 1 < size) {
        const char *value = NULL;

        for (size_t i = 0; i < MRD_COUNT(values) && value == NULL; i++) {
            if (strncmp(pattern, values[i].name, strlen(values[i].name)) == 0) {
                value = values[i].value == NULL ? id : values[i].value;
                pattern += strlen(values[i].name);
            }
        }
        if (value == NULL)
            to[n++] = *pattern++;
        else
            n += (size_t) snprintf(to + n, size - n, "%s", value);
    }
    to[n] = '\0';
}

/* Checks the reply to one request against its right in the grid. */
static void
check_cell(const char *what, const char *answer, char right, size_t token, char kind)
{
    bool mine = tokens[token].owns == kind;
    bool absent = strstr(answer, "there is no session") != NULL;
    int got = status(answer), want = 0;

    if (right == '-')
        want = tokens[token].role == MRD_ROLE_NONE ? 401 : 403;
    else if (right == 'o' ? !mine : kind == '-')
        want = 404;
    if (want == 404 && right == 'a' && got == 400) /* the body is checked first */
        return;
    CHECK_ROW(what, want == 0 ? got != 401 && got != 403 && got != 0 && !absent : got == want);
    if (want == 404)
        CHECK_ROW(what, absent);
    CHECK_ROW(what, tokens[token].token == NULL || strstr(answer, tokens[token].token) == NULL);
}

/* A foreign session and a missing session of the same name give equal replies. */
static void
check_same(mrd_aggregator *a, const mrd_http_route *r, const char *token, const char *id,
           const char *what)
{
    char path[256];
    const char *theirs, *none;
    mrd_buf a_text = { 0 }, b_text = { 0 };

    fill(r->path, id, path, sizeof(path));
    theirs = ask(a, r->method, path, token);
    mrd_buf_text(&a_text, theirs);
    fill(r->path, "20260102-000000-0000", path, sizeof(path));
    none = ask(a, r->method, path, token);
    for (char *at; (at = strstr(mrd_buf_cstr(&a_text), id)) != NULL;)
        memcpy(at, "20260102-000000-0000", strlen(id));
    mrd_buf_text(&b_text, none);
    CHECK_ROW(what, strcmp(mrd_buf_cstr(&a_text), mrd_buf_cstr(&b_text)) == 0);
    mrd_buf_fini(&a_text);
    mrd_buf_fini(&b_text);
}

TEST(every_route_for_every_role)
{
    mrd_aggregator *a = aggregator();
    unsigned cells = 0;

    REQUIRE(a != NULL);
    CHECK_INT(mrd_http_n_routes, MRD_COUNT(grid));
    /* Routes that delete a session come last, after all that read it. */
    for (int deletes = 0; deletes < 2; deletes++) {
        for (size_t i = 0; i < mrd_http_n_routes; i++) {
            const mrd_http_route *r = &mrd_http_routes[i];
            bool one = strncmp(r->path, "/api/v1/sessions/{id}", 21) == 0;
            const char *roles = roles_of(r);
            char what[256], path[256];

            CHECK_ROW(r->path, roles != NULL);
            if (roles == NULL || (strcmp(r->method, "DELETE") == 0) != deletes)
                continue;
            for (size_t t = 0; t < MRD_COUNT(tokens); t++) {
                char right = roles[tokens[t].role];

                for (size_t k = 0; k < (one ? sizeof(kinds) - 1 : 1); k++) {
                    char kind = one ? kinds[k] : (char) (right == 'o' ? tokens[t].owns : 'x');

                    snprintf(what, sizeof(what), "%s %s, %s, session of %c", r->method, r->path,
                             tokens[t].token == NULL ? "no token" : tokens[t].token, kind);
                    if (one && right == 'o' && kind != '-' && kind != tokens[t].owns)
                        check_same(a, r, tokens[t].token, id_of(t, k, false), what);
                    fill(r->path, one ? id_of(t, k, false) : "i-1", path, sizeof(path));
                    check_cell(what, ask(a, r->method, path, tokens[t].token), right, t, kind);
                    cells++;
                }
            }
        }
    }
    printf("%u cells\n", cells);
    CHECK(cells > 1000);
    mrd_aggregator_close(a);
}

static bool
lists(const char *answer, const char *id)
{
    return strstr(answer, id) != NULL;
}

/* The list contains what the caller may read, and deleting by a filter affects what the caller may
 * delete. */
TEST(lists_are_of_what_the_caller_may)
{
    mrd_aggregator *a = aggregator();
    char path[256];

    REQUIRE(a != NULL);
    for (size_t t = 0; t < MRD_COUNT(tokens); t++) {
        bool all = tokens[t].role >= MRD_ROLE_READ && tokens[t].role <= MRD_ROLE_ADMIN;
        const char *answer = ask(a, "GET", "/api/v1/sessions?job=7", tokens[t].token);

        for (size_t k = 0; kinds[k] != '-'; k++)
            CHECK_ROW(id_of(t, k, false),
                      lists(answer, id_of(t, k, false)) == (all || kinds[k] == tokens[t].owns));
        CHECK(!lists(answer, "owner_key"));
        for (size_t k = 0; kinds[k] != '-'; k++) {
            const char *id = id_of(t, k, true);
            bool may = tokens[t].role == MRD_ROLE_ADMIN || kinds[k] == tokens[t].owns;

            snprintf(path, sizeof(path), "/api/v1/sessions?id=%s", id);
            answer = ask(a, "DELETE", path, tokens[t].token);
            CHECK_ROW(id, lists(answer, id) == may);
            snprintf(path, sizeof(path), "/api/v1/sessions/%s", id);
            CHECK_ROW(id, status(ask(a, "GET", path, tokens[7].token)) == (may ? 404 : 200));
        }
    }
    mrd_aggregator_close(a);
}

/* ---- Two tenants ---- */

/*
 * Two Kubernetes namespaces have a job of the same name, user, cluster and run. The service account
 * of each tenant proves its namespace. Each tenant has one session of each of these kinds.
 */
static const char *const spaces[] = { "team-a", "team-m" };
static const struct {
    const char *what, *members, *witness;
    bool owned; /* by the tenant */
    bool mixed; /* an old agent recorded the jobs of both tenants into it */
} tenant_kinds[] = {
    { "stream", "\"mode\":\"stream\"", "pod", true, false },
    { "recorder", "\"mode\":\"recorder\"", "pod", true, false },
    { "asked for by the process", "\"mode\":\"stream\"", "process", true, false },
    { "waited for", "\"wait\":true", "pod", true, false },
    { "waited for, named by the process only", "\"wait\":true", "process", false, false },
    { "mixed", "\"mode\":\"stream\"", "pod", false, true },
};

static const char *
tenant_id(size_t tenant, size_t kind)
{
    static char ids[4][32];
    static unsigned turn;
    char *id = ids[turn++ % MRD_COUNT(ids)];

    snprintf(id, sizeof(ids[0]), "20260103-00000%zu-000%zu", tenant, kind);
    return id;
}

static void
store_tenant_session(size_t tenant, size_t kind)
{
    const char *space = spaces[tenant];
    mrd_buf members = { 0 };

    mrd_buf_fmt(&members,
                "\"name\":\"of-%s\",%s,\"select\":{\"jobs\":[\"train\"],\"uids\":[\"5\"],"
                "\"namespaces\":[\"%s\"],\"clusters\":[\"c\"],\"restarts\":[\"0\"]},"
                "\"job\":{\"key\":\"c/%s/train/0\",\"uid\":5,\"witness\":\"%s\"},\"jobs\":[",
                space, tenant_kinds[kind].members, space, space, tenant_kinds[kind].witness);
    for (size_t i = 0; i < MRD_COUNT(spaces); i++)
        if (i == tenant || tenant_kinds[kind].mixed)
            mrd_buf_fmt(&members,
                        "%s{\"job\":\"train\",\"uid\":\"5\",\"user\":\"alice\",\"cluster\":\"c\","
                        "\"namespace\":\"%s\"}",
                        members.p[members.len - 1] == '[' ? "" : ",", spaces[i]);
    mrd_buf_text(&members, "]");
    store_manifest(tenant_id(tenant, kind), mrd_buf_cstr(&members));
    mrd_buf_fini(&members);
}

static mrd_buf issuer_keys; /* the JWKS that `issuer_routes` serve */

static mrd_err
reply_keys(void *self, mrd_http_request *req, mrd_why *why)
{
    mrd_buf copy = { 0 };

    (void) self;
    (void) why;
    mrd_buf_add(&copy, issuer_keys.p, issuer_keys.len);
    return mrd_http_reply_text(req, 200, "application/json", &copy);
}

static const mrd_http_route issuer_routes[] = { { "GET", "/jwks", MRD_ACTION_OPEN, reply_keys,
                                                  "Get the keys", NULL } };

/* An issuer of tokens, the aggregator that trusts it, and the token of each tenant. */
typedef struct {
    mrd_httpd *issuer;
    mrd_aggregator *aggregator;
    mrd_buf tokens[MRD_COUNT(spaces)];
} tenants;

static bool
open_tenants(tenants *t)
{
    mrd_httpd_options options = { .address = "127.0.0.1" };
    EVP_PKEY *key = EVP_RSA_gen(2048);
    char path[128], text[512];

    mrd_buf_text(&issuer_keys, "{\"keys\":[");
    jwt_put_rsa(key, "\"kid\":\"r\",", &issuer_keys);
    mrd_buf_text(&issuer_keys, "]}");
    CHECK_ERR(
        "issuer",
        mrd_httpd_start(&options, issuer_routes, MRD_COUNT(issuer_routes), NULL, &t->issuer, NULL),
        MRD_OK);
    snprintf(path, sizeof(path), "%s/oidc.json", test_tmp());
    snprintf(text, sizeof(text),
             "{\"issuer\":\"https://login.example\",\"audience\":\"meridian\","
             "\"jwks\":\"http://127.0.0.1:%u/jwks\",\"service-accounts\":true}",
             mrd_httpd_port(t->issuer));
    write_text(path, text);
    for (size_t i = 0; i < MRD_COUNT(spaces); i++) {
        snprintf(text, sizeof(text),
                 "{\"iss\":\"https://login.example\",\"aud\":\"meridian\",\"exp\":4000000000,"
                 "\"sub\":\"system:serviceaccount:%s:trainer\"}",
                 spaces[i]);
        jwt_make("{\"alg\":\"RS256\",\"kid\":\"r\"}", text, key, &t->tokens[i]);
        for (size_t k = 0; k < MRD_COUNT(tenant_kinds); k++)
            store_tenant_session(i, k);
    }
    EVP_PKEY_free(key);
    t->aggregator = open_aggregator(path);
    for (int64_t end = test_deadline(); t->aggregator != NULL && test_in_time(end);
         test_look_again())
        if (status(ask(t->aggregator, "GET", "/api/v1/self", mrd_buf_cstr(&t->tokens[0]))) == 200)
            return true;
    return false;
}

static void
close_tenants(tenants *t)
{
    mrd_aggregator_close(t->aggregator);
    mrd_httpd_stop(t->issuer);
    mrd_buf_fini(&issuer_keys);
    for (size_t i = 0; i < MRD_COUNT(spaces); i++)
        mrd_buf_fini(&t->tokens[i]);
}

/* Asks as this tenant and checks that nothing in the answer is of the other tenant. */
static const char *
ask_as(tenants *t, size_t who, const char *method, const char *path)
{
    const char *answer = ask(t->aggregator, method, path, mrd_buf_cstr(&t->tokens[who]));

    CHECK_ROW(path, strstr(answer, spaces[1 - who]) == NULL);
    for (size_t k = 0; k < MRD_COUNT(tenant_kinds); k++)
        if (strstr(path, tenant_id(1 - who, k)) == NULL)
            CHECK_ROW(path, strstr(answer, tenant_id(1 - who, k)) == NULL);
    return answer;
}

/* Sends a request of this tenant to the route, for each session of both tenants. A route that
 * deletes is not used with the tenant's own first session, because later checks need it. */
static void
check_tenant_route(tenants *t, size_t who, const mrd_http_route *r, char right)
{
    char path[256], what[256];

    for (size_t i = 0; i < MRD_COUNT(spaces) * MRD_COUNT(tenant_kinds); i++) {
        size_t whose = i % 2, kind = i / 2;
        const char *id = tenant_id(whose, kind), *answer;
        bool owns = whose == who && tenant_kinds[kind].owned;

        if (owns && kind == 0 && strcmp(r->method, "DELETE") == 0)
            continue;
        snprintf(what, sizeof(what), "%s %s: %s, session %s of %s", r->method, r->path, spaces[who],
                 tenant_kinds[kind].what, spaces[whose]);
        fill(r->path, id, path, sizeof(path));
        answer = ask_as(t, who, r->method, path);
        if (right == '-')
            CHECK_ROW(what, status(answer) == 403);
        else
            CHECK_ROW(what, (strstr(answer, "there is no session") == NULL) == owns &&
                                status(answer) != 401 && status(answer) != 403);
        if (right == 'o' && !owns)
            check_same(t->aggregator, r, mrd_buf_cstr(&t->tokens[who]), id, what);
    }
    fill(r->path, "latest", path, sizeof(path));
    (void) ask_as(t, who, r->method, path);
}

/* Requests a list of sessions as this tenant: without a filter, and with filters that the sessions
 * of both tenants match. */
static void
check_tenant_list(tenants *t, size_t who, const mrd_http_route *r)
{
    static const char *const filters[] = { "", "?job=train", "?user=alice", "?namespace=team-a",
                                           "?namespace=team-m" };
    char path[256];

    for (size_t i = 0; i < MRD_COUNT(filters); i++) {
        bool deletes = strcmp(r->method, "DELETE") == 0;
        bool names_it =
            strncmp(filters[i], "?namespace", 10) != 0 || strstr(filters[i], spaces[who]) != NULL;
        const char *answer;

        if (deletes && i != 1)
            continue;
        snprintf(path, sizeof(path), "%s%s", r->path, filters[i]);
        answer = ask_as(t, who, r->method, path);
        CHECK_ROW(path, status(answer) == 200);
        for (size_t k = 0; k < (deletes ? 1 : MRD_COUNT(tenant_kinds)); k++)
            CHECK_ROW(path,
                      lists(answer, tenant_id(who, k)) == (names_it && tenant_kinds[k].owned));
    }
}

TEST(every_route_for_two_tenants_of_one_job_name)
{
    tenants t = { 0 };
    char path[256];

    REQUIRE(open_tenants(&t));
    /* Routes that delete come last. The last of them deletes all sessions that a filter selects. */
    for (int deletes = 0; deletes < 2; deletes++)
        for (size_t i = mrd_http_n_routes; i-- > 0;) {
            const mrd_http_route *r = &mrd_http_routes[i];
            const char *roles = roles_of(r);

            CHECK_ROW(r->path, roles != NULL);
            for (size_t who = 0; who < MRD_COUNT(spaces); who++) {
                if (roles == NULL || (strcmp(r->method, "DELETE") == 0) != deletes)
                    continue;
                if (strcmp(r->path, "/api/v1/hangs") == 0 ||
                    strncmp(r->path, "/api/v1/jobs", strlen("/api/v1/jobs")) == 0)
                    continue; /* lists no sessions; e2e/hangs and e2e/job-list check the owners */
                if (strncmp(r->path, "/api/v1/sessions/{id}", 21) == 0)
                    check_tenant_route(&t, who, r, roles[MRD_ROLE_OWNER]);
                else if (roles[MRD_ROLE_OWNER] == 'o')
                    check_tenant_list(&t, who, r);
                else {
                    fill(r->path, "i-1", path, sizeof(path));
                    CHECK_ROW(path, (status(ask_as(&t, who, r->method, path)) == 403) ==
                                        (roles[MRD_ROLE_OWNER] == '-'));
                }
            }
        }
    close_tenants(&t);
}

TEST(callers_are_told_what_they_may)
{
    static const struct {
        size_t token;
        const char *says;
    } rows[] = { { TOKEN_ALICE, "{\"role\":\"owner\",\"may\":[\"list\",\"read\",\"delete\"]}" },
                 { 5, "{\"role\":\"read\",\"may\":[\"list\",\"read\",\"cluster\"]}" },
                 { 6, "{\"role\":\"operator\",\"may\":[\"list\",\"read\",\"control\",\"start\","
                      "\"cluster\"]}" },
                 { 7, "{\"role\":\"admin\",\"may\":[\"list\",\"read\",\"delete\",\"control\","
                      "\"start\",\"cluster\",\"forget\",\"invite\"]}" } };
    mrd_aggregator *a = aggregator();

    REQUIRE(a != NULL);
    for (size_t i = 0; i < MRD_COUNT(rows); i++)
        CHECK_ROW(rows[i].says, strstr(ask(a, "GET", "/api/v1/self", tokens[rows[i].token].token),
                                       rows[i].says) != NULL);
    mrd_aggregator_close(a);
}

#define KEY1 "1111111111111111111111111111111111111111111111111111111111111111"
#define KEY2 "2222222222222222222222222222222222222222222222222222222222222222"
static const struct {
    const char *what;
    mrd_caller who;
    bool of_job;
    int64_t uid;
    const char *keys[3], *jobs[3];
    unsigned left_out;
    bool owns;
} ownerships[] = {
    { "its key", { .key = KEY1, .uid = -1 }, true, 5, { KEY2, KEY1 }, { "job=7" }, 0, true },
    { "another's key", { .key = KEY1, .uid = -1 }, true, 5, { KEY2 }, { "job=7" }, 0, false },
    { "no keys", { .key = KEY1, .uid = -1 }, true, 5, { NULL }, { "job=7" }, 0, false },
    { "a short key", { .key = KEY1, .uid = -1 }, true, 5, { "1111" }, { "job=7" }, 0, false },
    { "of no job", { .key = KEY1, .uid = -1 }, false, 5, { KEY1 }, { "job=7" }, 0, false },
    { "nothing proven", { .uid = -1 }, true, 5, { KEY1 }, { "user=a" }, 0, false },
    { "its name", { .user = "a", .uid = -1 }, true, 5, { NULL }, { "user=a" }, 0, true },
    { "its names",
      { .user = "a", .uid = -1 },
      true,
      5,
      { NULL },
      { "user=a\njob=1", "user=a\njob=2" },
      0,
      true },
    { "one of another",
      { .user = "a", .uid = -1 },
      true,
      5,
      { NULL },
      { "user=a", "user=b" },
      0,
      false },
    { "one of nobody",
      { .user = "a", .uid = -1 },
      true,
      5,
      { NULL },
      { "user=a", "job=2" },
      0,
      false },
    { "more than is known", { .user = "a", .uid = -1 }, true, 5, { NULL }, { "user=a" }, 1, false },
    { "nothing recorded", { .user = "a", .uid = -1 }, true, 5, { NULL }, { NULL }, 0, false },
    { "a longer name", { .user = "a", .uid = -1 }, true, 5, { NULL }, { "user=ab" }, 0, false },
    { "its number", { .uid = 5 }, true, 5, { NULL }, { NULL }, 0, true },
    { "another number", { .uid = 6 }, true, 5, { NULL }, { NULL }, 0, false },
    { "root's", { .uid = 0 }, true, 5, { NULL }, { NULL }, 0, false },
    { "its namespace", { .space = "n", .uid = -1 }, true, 5, { NULL }, { "namespace=n" }, 0, true },
    { "another namespace",
      { .space = "n", .uid = -1 },
      true,
      5,
      { NULL },
      { "namespace=m" },
      0,
      false },
    { "name without number", { .user = "a", .uid = 6 }, true, 5, { NULL }, { "user=a" }, 0, false },
    { "key without name",
      { .key = KEY1, .user = "a", .uid = -1 },
      true,
      5,
      { KEY1 },
      { "user=b" },
      0,
      false },
};

/* Decides if a session belongs to the caller. All known properties of the owner must match, and all
 * recorded jobs must be the owner's. */
TEST(whose_a_session_is)
{

    for (size_t i = 0; i < MRD_COUNT(ownerships); i++) {
        mrd_strlist keys = { 0 }, jobs = { 0 };
        mrd_caller who = ownerships[i].who;
        mrd_ownership s = { .of_job = ownerships[i].of_job,
                            .uid = ownerships[i].uid,
                            .keys = &keys,
                            .jobs = &jobs,
                            .jobs_left_out = ownerships[i].left_out };

        for (size_t k = 0; ownerships[i].keys[k] != NULL; k++)
            CHECK(mrd_strlist_add(&keys, mrd_str_of(ownerships[i].keys[k])) == MRD_OK);
        for (size_t k = 0; ownerships[i].jobs[k] != NULL; k++)
            CHECK(mrd_strlist_add(&jobs, mrd_str_of(ownerships[i].jobs[k])) == MRD_OK);
        CHECK_ROW(ownerships[i].what, mrd_caller_owns(&who, &s) == ownerships[i].owns);
        who.role = MRD_ROLE_OWNER;
        CHECK_ROW(ownerships[i].what, mrd_may(&who, &s, MRD_ACTION_READ) == ownerships[i].owns);
        CHECK_ROW(ownerships[i].what, !mrd_may(&who, &s, MRD_ACTION_NONE));
        CHECK_ROW(ownerships[i].what, !mrd_may(&who, &s, MRD_ACTIONS));
        who.role = MRD_ROLE_AGENT;
        CHECK_ROW(ownerships[i].what, !mrd_may(&who, &s, MRD_ACTION_READ));
        who.role = (mrd_role) 40;
        CHECK_ROW(ownerships[i].what, !mrd_may(&who, &s, MRD_ACTION_OPEN));
        mrd_strlist_fini(&keys);
        mrd_strlist_fini(&jobs);
    }
}

TEST_MAIN()
