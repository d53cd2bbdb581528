/* aggregator/api/http_models.c - GET /api/v1/models, …/sessions/{id}/models: which models are loaded on
 * which nodes */
#include "aggregator/api/http.h"

#include "aggregator/core/node/models.h"

static mrd_err
reply(mrd_http_request *req, mrd_json *models, uint64_t left_out)
{
    mrd_json *o = mrd_json_new_object();

    mrd_json_set(o, "models", models);
    mrd_json_set(o, "left_out", mrd_json_new_count(left_out));
    return mrd_http_reply_json(req, 200, o);
}

mrd_err
mrd_http_models(void *self, mrd_http_request *req, mrd_why *why)
{
    http_api *api = self;
    mrd_overview *v = mrd_loop_overview(api->loop);
    mrd_json *models;
    uint64_t left_out = 0;

    if (v == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "list of models");
    models = mrd_json_new_array();
    for (size_t i = 0; i < v->n_nodes; i++) {
        const mrd_node *n = v->nodes[i];

        if (n->models == NULL || !mrd_node_is_alive(n, v->made, &v->limits))
            continue; /* its loaded models are unknown */
        mrd_node_models_gather(n->models, n->instance_id, models);
        left_out += n->models->left_out;
    }
    mrd_overview_unref(v);
    return reply(req, models, left_out);
}

/* Adds the NEFF if it was sent as an artifact with the model's hash. */
static void
put_neffs(const mrd_session *s, mrd_json *models)
{
    for (size_t i = 0; i < mrd_json_size(models); i++) {
        mrd_json *m = mrd_json_at(models, i);
        const char *sha = mrd_json_str(m, "sha256", "");
        bool there = false;

        for (size_t j = 0; j < s->n_artifacts && *sha != '\0' && !there; j++)
            there = s->artifacts[j].complete && strcmp(s->artifacts[j].sha256, sha) == 0;
        mrd_json_set(m, "neff", mrd_json_new_bool(there));
    }
}

mrd_err
mrd_http_session_models(void *self, mrd_http_request *req, mrd_why *why)
{
    http_api *api = self;
    mrd_json *models;
    mrd_session_view *v;
    uint64_t left_out = 0;
    mrd_err err = mrd_http_session(api, req, &v, why);

    if (err != MRD_OK)
        return err;
    models = mrd_json_new_array();
    for (size_t i = 0; i < v->s->n_parts; i++) {
        const mrd_part *p = v->s->parts[i];

        mrd_node_models_gather(p->models, p->instance_id, models);
        left_out += p->models == NULL ? 0 : p->models->left_out;
    }
    put_neffs(v->s, models);
    mrd_session_view_unref(v);
    return reply(req, models, left_out);
}
