/* Prints the server's own table of routes as JSON. tests/e2e/openapi.py compares it with
 * docs/reference/openapi.json. */
#include <stdio.h>

#include "aggregator/api/http.h"
#include "aggregator/api/http_body.h"

static mrd_json *
words(const char *const *list)
{
    mrd_json *a = mrd_json_new_array();

    for (; list != NULL && *list != NULL; list++)
        mrd_json_append(a, mrd_json_new_str(*list));
    return a;
}

static mrd_json *
names(const mrd_body_member *list)
{
    mrd_json *a = mrd_json_new_array();

    for (; list->name != NULL; list++)
        mrd_json_append(a, mrd_json_new_str(list->name));
    return a;
}

/* Returns the roles that may do it to at least some sessions. */
static mrd_json *
roles(mrd_action action)
{
    mrd_json *a = mrd_json_new_array();

    for (mrd_role role = MRD_ROLE_NONE; role <= MRD_ROLE_AGENT; role++) {
        mrd_caller who = MRD_CALLER(role);

        if (mrd_may(&who, NULL, action))
            mrd_json_append(a, mrd_json_new_str(mrd_role_text(role)));
    }
    return a;
}

int
main(void)
{
    mrd_json *o = mrd_json_new_object(), *list = mrd_json_new_array();
    mrd_buf text = { 0 };

    for (size_t i = 0; i < mrd_http_n_routes; i++) {
        const mrd_http_route *r = &mrd_http_routes[i];
        mrd_json *row = mrd_json_new_object();

        mrd_json_set(row, "method", mrd_json_new_str(r->method));
        mrd_json_set(row, "path", mrd_json_new_str(r->path));
        mrd_json_set(row, "action", mrd_json_new_str(mrd_action_text(r->action)));
        mrd_json_set(row, "roles", roles(r->action));
        mrd_json_set(row, "summary", mrd_json_new_str(r->summary));
        mrd_json_set(row, "query", words(r->query));
        mrd_json_append(list, row);
    }
    mrd_json_set(o, "routes", list);
    mrd_json_set(o, "session", names(mrd_http_session_members));
    mrd_json_set(o, "trigger", names(mrd_http_trigger_members));
    mrd_json_write(o, true, &text);
    puts(mrd_buf_cstr(&text));
    mrd_buf_fini(&text);
    mrd_json_free(o);
    return 0;
}
