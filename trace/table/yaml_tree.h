/*
 * trace/table/yaml_tree.h - small YAML documents as a tree of scalars, lists and mappings (libyaml reads
 * them). For settings and schemas that people hand over: everything is bounded, an alias is refused
 * (a short text with aliases stands for a huge one), and so is a key that stands twice in a mapping.
 *
 * Threads: a tree belongs to one thread.
 */
#ifndef MRD_TRACE_TABLE_YAML_TREE_H
#define MRD_TRACE_TABLE_YAML_TREE_H

#include "base/buf.h"

enum { MRD_YAML_DEPTH = 24, MRD_YAML_NODES = 300000 };

typedef enum { MRD_YAML_SCALAR, MRD_YAML_LIST, MRD_YAML_MAP } mrd_yaml_kind;

/* The children of a list are its items, those of a mapping key, value, key, value. */
typedef struct {
    uint8_t kind;
    uint32_t line;         /* of the file, from 1 */
    uint32_t first, next;  /* first child; next of the same parent; 0 none */
    uint32_t text_at, len; /* of a scalar */
} mrd_yaml_node;

typedef struct {
    mrd_yaml_node *nodes; /* number 0 is none */
    uint32_t n, cap;
    mrd_buf text;
} mrd_yaml;

/*
 * Adds a document: `text` begins on line `line` of the file `name`. *ret_root: its root, 0 when it is
 * empty. Errors: SYNTAX, DEPTH, LIMIT, INVALID (an alias, a key twice, a key that is no scalar), UTF8, NOMEM; each
 * names file, line and reason.
 */
mrd_err mrd_yaml_add(mrd_yaml *y, mrd_str text, size_t line, const char *name, uint32_t *ret_root,
                     mrd_why *why);
void mrd_yaml_fini(mrd_yaml *y);

/* Of a scalar, '' for others; until the next mrd_yaml_add. */
mrd_str mrd_yaml_text(const mrd_yaml *y, uint32_t node);
/* The value of a key of a mapping; 0: not there, or no mapping. */
uint32_t mrd_yaml_get(const mrd_yaml *y, uint32_t map, const char *key);

#endif
