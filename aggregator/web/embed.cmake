# cmake -D DIR=aggregator/web -D "FILES=index.html;app.js" -D OUT=web_files.c -P embed.cmake
# Writes a C file with the contents of FILES, as the table that aggregator/api/http_web.h declares. A row has the name, the media type,
# the ETag (a hash of the contents) and the bytes of one file.
set(types_html "text/html; charset=utf-8")
set(types_css "text/css; charset=utf-8")
set(types_js "text/javascript; charset=utf-8")
set(types_json "application/json")
set(types_svg "image/svg+xml")

set(arrays "")
set(rows "")
set(i 0)
foreach(name IN LISTS FILES)
    file(READ ${DIR}/${name} hex HEX)
    file(SHA256 ${DIR}/${name} hash)
    string(SUBSTRING ${hash} 0 16 hash)
    string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
    string(REGEX REPLACE ".*\\." "" ending ${name})
    string(APPEND arrays "static const unsigned char file_${i}[] = {\n${hex}\n};\n")
    string(APPEND rows "    { \"${name}\", \"${types_${ending}}\", \"\\\"${hash}\\\"\", { file_${i}, sizeof(file_${i}) } },\n")
    math(EXPR i "${i} + 1")
endforeach()
file(WRITE ${OUT} "/* Made by aggregator/web/embed.cmake. */\n#include \"aggregator/api/http_web.h\"\n\n${arrays}\n"
    "const http_web_file mrd_http_web_files[] = {\n${rows}};\nconst size_t mrd_http_web_n_files = ${i};\n")
