# cmake -D "FILES=a.sql;b.sql" -D OUT=x.c -P embed.cmake: the files as C text, sorted by name.
set(text "/* Made of sql/ by trace/table/embed.cmake. */\n#include \"trace/table/queries_int.h\"\n\nconst mrd_query mrd_queries_text[] = {\n")
list(SORT FILES)
foreach(file ${FILES})
    get_filename_component(name ${file} NAME_WE)
    file(READ ${file} sql HEX)
    string(REGEX REPLACE "(..)" "\\\\x\\1" sql "${sql}")
    # Short strings: a text of C has a largest length that all compilers take.
    string(REGEX REPLACE "((\\\\x..)(\\\\x..)(\\\\x..)(\\\\x..)(\\\\x..)(\\\\x..)(\\\\x..)(\\\\x..))" "\\1\"\n     \"" sql "${sql}")
    string(APPEND text "    { \"${name}\",\n     \"${sql}\" },\n")
endforeach()
list(LENGTH FILES n)
string(APPEND text "};\nconst size_t mrd_queries_n = ${n};\n")
file(WRITE ${OUT} "${text}")
