import"./c.SW7MOX5Q.js";import"./c.ENOHEU24.js";import"./c.FGTTRULY.js";import"./c.WEOFLFZF.js";
