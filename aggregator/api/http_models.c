/* aggregator/api/http_models.c - GET /api/v1/models, /api/v1/sessions/{id}/models: which models are
 * loaded on which nodes */
#include "aggregator/api/http.h"

#include "aggregator/core/node/models.h"

static mrd_err
reply(mrd_http_request *req, mrd_json *models, uint64_t left_out)
{
    mrd_json *json = mrd_json_new_object();

    mrd_json_set(json, "models", models);
    mrd_json_set(json, "left_out", mrd_json_new_count(left_out));
    return mrd_http_reply_json(req, 200, json);
}

mrd_err
mrd_http_models(void *self, mrd_http_request *req, mrd_why *why)
{
    http_api *api = self;
    mrd_overview *overview = mrd_loop_overview(api->loop);
    mrd_json *models;
    uint64_t left_out = 0;

    if (overview == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "list of models");
    models = mrd_json_new_array();
    for (size_t i = 0; i < overview->n_nodes; i++) {
        const mrd_node *node = overview->nodes[i];

        if (node->models == NULL || !mrd_node_is_alive(node, overview->made, &overview->limits))
            continue; /* leaves out disconnected nodes, and nodes that report no models */
        mrd_node_models_gather(node->models, node->instance_id, models);
        left_out += node->models->left_out;
    }
    mrd_overview_unref(overview);
    return reply(req, models, left_out);
}

/* Adds "neff" to each model: whether the model's compiled file (NEFF) was received as an artifact.
 * The file is identified by the model's hash. */
static void
put_neffs(const mrd_session *session, mrd_json *models)
{
    for (size_t i = 0; i < mrd_json_size(models); i++) {
        mrd_json *json = mrd_json_at(models, i);
        const char *sha = mrd_json_str(json, "sha256", "");
        bool there = false;

        for (size_t j = 0; j < session->n_artifacts && *sha != '\0' && !there; j++)
            there =
                session->artifacts[j].complete && strcmp(session->artifacts[j].sha256, sha) == 0;
        mrd_json_set(json, "neff", mrd_json_new_bool(there));
    }
}

mrd_err
mrd_http_session_models(void *self, mrd_http_request *req, mrd_why *why)
{
    http_api *api = self;
    mrd_json *models;
    mrd_session_view *view;
    uint64_t left_out = 0;
    mrd_err err = mrd_http_session(api, req, &view, why);

    if (err != MRD_OK)
        return err;
    models = mrd_json_new_array();
    for (size_t i = 0; i < view->s->n_parts; i++) {
        const mrd_part *part = view->s->parts[i];

        mrd_node_models_gather(part->models, part->instance_id, models);
        left_out += part->models == NULL ? 0 : part->models->left_out;
    }
    put_neffs(view->s, models);
    mrd_session_view_unref(view);
    return reply(req, models, left_out);
}
