/* `meridian mcp`: answers requests of the Model Context Protocol on standard input, so that a
 * program with a language model can ask about jobs, sessions and profiles. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/obj.h"
#include "base/version.h"
#include "cli/cli.h"
#include "cli/client/client.h"
#include "cli/mcp/mcp.h"

/* The current revision of the protocol: each request names it, and nothing is agreed before. */
#define CURRENT "2026-07-28"
/* The revision before: the client begins with `initialize`. */
#define BEFORE "2025-11-25"

/* keys of `_meta` that the protocol reserves */
#define META_VERSION "io.modelcontextprotocol/protocolVersion"
#define META_SERVER  "io.modelcontextprotocol/serverInfo"

#define LINE_MAX_BYTES (1u << 20) /* a longer request is refused */
#define LIST_TTL_MS    3600000    /* how long a client may keep the list of tools */

/* error codes of JSON-RPC and of the protocol */
enum {
    NOT_JSON = -32700,
    NOT_A_REQUEST = -32600,
    NO_SUCH_METHOD = -32601,
    WRONG_ARGUMENTS = -32602,
    INTERNAL = -32603,
    UNKNOWN_VERSION = -32022
};

typedef struct {
    mrd_client_options client;
    char *dir;
} settings;

static const mrd_opt table[] = {
    { .name = "dir",
      .type = MRD_OPT_STR,
      .offset = offsetof(settings, dir),
      .def = "meridian-profiles",
      .arg = "DIR",
      .help = "folder for the profiles that fetch_profile downloads" },
    MRD_CLIENT_OPTION_ROWS(settings, client),
};

static const char more[] =
    "Reads one JSON-RPC request a line from standard input, and answers on standard output.\n"
    "Protocol revisions: " CURRENT " and " BEFORE ".\n"
    "The tools only read: jobs, hangs, sessions, reports, clocks, models, SQL over a profile. "
    "Give it\na token of a reader.\n"
    "\n"
    "Example: the entry of a client's configuration\n"
    "  {\"mcpServers\": {\"meridian\": {\"command\": \"meridian\", \"args\": [\"mcp\"]}}}\n";

static const char instructions[] =
    "Meridian profiles training and serving on AWS Neuron clusters. Begin with list_jobs for what "
    "runs now, or with list_sessions for recordings. show_job names the rank that is slow or why a "
    "job stands. list_hangs has stacks. report explains a recording. For details, fetch_profile "
    "and query. A time that crossed a clock has an error bound; do not order events whose bounds "
    "overlap.";

/* ---- Answers ---- */

static mrd_json *
server_info(void)
{
    mrd_json *info = mrd_json_new_object();

    mrd_json_set(info, "name", mrd_json_new_str("meridian"));
    mrd_json_set(info, "version", mrd_json_new_str(MRD_RELEASE));
    return info;
}

static mrd_json *
capabilities(void)
{
    mrd_json *all = mrd_json_new_object();

    mrd_json_set(all, "tools", mrd_json_new_object());
    return all;
}

/* Prints one answer, which is freed. `id` is that of the request; NULL if the request has none that
 * can be read. */
static void
answer(const mrd_json *id, const char *member, mrd_json *value)
{
    mrd_json *doc = mrd_json_new_object();
    mrd_buf text = { 0 };

    mrd_json_set(doc, "jsonrpc", mrd_json_new_str("2.0"));
    if (id != NULL)
        mrd_json_set(doc, "id", mrd_json_copy(id));
    mrd_json_set(doc, member, value);
    mrd_json_write(doc, false, &text);
    mrd_buf_byte(&text, '\n');
    if (text.err == MRD_OK)
        fwrite(text.p, 1, text.len, stdout);
    fflush(stdout);
    mrd_buf_fini(&text);
    mrd_json_free(doc);
}

static mrd_json *
error_of(int code, const char *message)
{
    mrd_json *error = mrd_json_new_object();

    mrd_json_set(error, "code", mrd_json_new_int(code));
    mrd_json_set(error, "message", mrd_json_new_str(message));
    return error;
}

static mrd_json *
versions(void)
{
    mrd_json *list = mrd_json_new_array();

    mrd_json_append(list, mrd_json_new_str(CURRENT));
    mrd_json_append(list, mrd_json_new_str(BEFORE));
    return list;
}

/* Adds the members that the current revision requires in every result. */
static void
complete(mrd_json *result, bool is_current, bool may_be_kept)
{
    mrd_json *meta;

    if (!is_current)
        return;
    meta = mrd_json_new_object();
    mrd_json_set(meta, META_SERVER, server_info());
    mrd_json_set(result, "resultType", mrd_json_new_str("complete"));
    mrd_json_set(result, "_meta", meta);
    if (may_be_kept) {
        mrd_json_set(result, "ttlMs", mrd_json_new_int(LIST_TTL_MS));
        mrd_json_set(result, "cacheScope", mrd_json_new_str("public"));
    }
}

/* ---- Requests ---- */

static void
initialize(const mrd_json *id)
{
    mrd_json *result = mrd_json_new_object();

    /* A client that wants another revision ends the connection, or uses this one. */
    mrd_json_set(result, "protocolVersion", mrd_json_new_str(BEFORE));
    mrd_json_set(result, "capabilities", capabilities());
    mrd_json_set(result, "serverInfo", server_info());
    mrd_json_set(result, "instructions", mrd_json_new_str(instructions));
    answer(id, "result", result);
}

static void
discover(const mrd_json *id)
{
    mrd_json *result = mrd_json_new_object();

    mrd_json_set(result, "supportedVersions", versions());
    mrd_json_set(result, "capabilities", capabilities());
    mrd_json_set(result, "instructions", mrd_json_new_str(instructions));
    complete(result, true, true);
    answer(id, "result", result);
}

static void
list_tools(const mrd_json *id, bool is_current)
{
    mrd_json *result = mrd_json_new_object();

    mrd_json_set(result, "tools", mrd_mcp_tools());
    complete(result, is_current, true);
    answer(id, "result", result);
}

static void
call_tool(const settings *set, const mrd_json *id, const mrd_json *params, bool is_current)
{
    const mrd_json *arguments = params == NULL ? NULL : mrd_json_get(params, "arguments");
    const char *name = params == NULL ? "" : mrd_json_str(params, "name", "");
    mrd_json *result, *content, *one;
    mrd_why why = { 0 };
    mrd_buf text = { 0 };
    bool failed = false;
    mrd_err err;

    if (arguments != NULL && !mrd_json_is_object(arguments))
        err = mrd_why_set(&why, MRD_INVALID, 0, "'arguments' is no object");
    else
        err = mrd_mcp_call(name, arguments, set->dir, &text, &failed, &why);
    if (err != MRD_OK) {
        answer(id, "error",
               error_of(err == MRD_NOTFOUND || err == MRD_INVALID ? WRONG_ARGUMENTS : INTERNAL,
                        why.text));
        mrd_buf_fini(&text);
        return;
    }
    result = mrd_json_new_object();
    content = mrd_json_new_array();
    one = mrd_json_new_object();
    mrd_json_set(one, "type", mrd_json_new_str("text"));
    mrd_json_set(one, "text", mrd_json_new_str(mrd_buf_cstr(&text)));
    mrd_json_append(content, one);
    mrd_json_set(result, "content", content);
    mrd_json_set(result, "isError", mrd_json_new_bool(failed));
    complete(result, is_current, false);
    answer(id, "result", result);
    mrd_buf_fini(&text);
}

/* Returns true if the request names a revision that is known, or none. Else answers it. */
static bool
knows_version(const mrd_json *id, const char *version)
{
    mrd_json *error, *data;

    if (version == NULL || strcmp(version, CURRENT) == 0)
        return true;
    error = error_of(UNKNOWN_VERSION, "this revision of the protocol is not supported");
    data = mrd_json_new_object();
    mrd_json_set(data, "supported", versions());
    mrd_json_set(data, "requested", mrd_json_new_str(version));
    mrd_json_set(error, "data", data);
    answer(id, "error", error);
    return false;
}

static void
handle(const settings *set, const mrd_json *request)
{
    const mrd_json *id = mrd_json_get(request, "id"), *params = mrd_json_get(request, "params");
    const mrd_json *meta = params == NULL ? NULL : mrd_json_get(params, "_meta");
    const char *method = mrd_json_str(request, "method", NULL);
    const char *version = meta == NULL ? NULL : mrd_json_str(meta, META_VERSION, NULL);
    bool is_current = version != NULL;

    if (method == NULL) {
        /* A reply to a request of ours cannot come, because this program sends none. */
        answer(id, "error", error_of(NOT_A_REQUEST, "the request has no method"));
    } else if (id == NULL) {
        return; /* a notification gets no answer */
    } else if (strcmp(method, "initialize") == 0) {
        initialize(id);
    } else if (!knows_version(id, version)) {
        return;
    } else if (strcmp(method, "server/discover") == 0) {
        discover(id);
    } else if (strcmp(method, "ping") == 0) {
        mrd_json *result = mrd_json_new_object();

        complete(result, is_current, false);
        answer(id, "result", result);
    } else if (strcmp(method, "tools/list") == 0) {
        list_tools(id, is_current);
    } else if (strcmp(method, "tools/call") == 0) {
        call_tool(set, id, params, is_current);
    } else {
        answer(id, "error", error_of(NO_SUCH_METHOD, "there is no such method"));
    }
}

/* Reads one line into *line. A line that is too long is skipped and marked. Returns false at the
 * end of the input. */
static bool
read_line(mrd_buf *line, bool *ret_too_long)
{
    int c;

    mrd_buf_reset(line);
    *ret_too_long = false;
    while ((c = getchar()) != EOF && c != '\n') {
        if (line->len < LINE_MAX_BYTES)
            mrd_buf_byte(line, (uint8_t) c);
        else
            *ret_too_long = true;
    }
    return c != EOF || line->len > 0;
}

/* The commands read the address and the token of the aggregator from the environment. */
static mrd_err
export_options(const mrd_client_options *client, mrd_why *why)
{
    bool ok = true;

    if (client->server != NULL)
        ok = setenv("MERIDIAN_SERVER", client->server, 1) == 0;
    if (ok && client->token_file != NULL)
        ok = setenv("MERIDIAN_TOKEN_FILE", client->token_file, 1) == 0;
    if (ok && client->ca_file != NULL)
        ok = setenv("MERIDIAN_CA_FILE", client->ca_file, 1) == 0;
    if (ok && client->insecure)
        ok = setenv("MERIDIAN_INSECURE", "1", 1) == 0;
    return ok ? MRD_OK : mrd_why_set(why, MRD_NOMEM, errno, "environment");
}

static int
run(void *self, const mrd_strlist *words)
{
    const settings *set = self;
    mrd_buf line = { 0 };
    mrd_why why = { 0 };
    bool too_long;
    mrd_err err = export_options(&set->client, &why);

    (void) words;
    if (err != MRD_OK) {
        mrd_cli_error("mcp", &why);
        return MRD_EXIT_FAILED;
    }
    /* A client that ends closes both pipes. The next answer then fails, and the input ends. */
    (void) signal(SIGPIPE, SIG_IGN);
    while (!ferror(stdout) && read_line(&line, &too_long)) {
        mrd_json *request = NULL;

        if (line.len == 0 && !too_long)
            continue;
        if (too_long || line.err != MRD_OK)
            answer(NULL, "error", error_of(NOT_A_REQUEST, "the request is longer than 1 MiB"));
        else if (mrd_json_parse((mrd_str){ (const char *) line.p, line.len }, "request", &request,
                                &why) != MRD_OK)
            answer(NULL, "error", error_of(NOT_JSON, why.text));
        else if (!mrd_json_is_object(request))
            answer(NULL, "error", error_of(NOT_A_REQUEST, "the request is no object"));
        else
            handle(set, request);
        mrd_json_free(request);
    }
    mrd_buf_fini(&line);
    return MRD_EXIT_OK;
}

int
mrd_cmd_mcp(int argc, char **argv)
{
    settings set = { 0 };
    mrd_cli_frame frame = { .usage = "[options]",
                            .more = more,
                            .table = table,
                            .rows = MRD_COUNT(table),
                            .settings = &set,
                            .run = run };

    return mrd_cli_main(&frame, argc, argv);
}
