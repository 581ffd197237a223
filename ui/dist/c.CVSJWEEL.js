import{a,b,c,d}from"./c.ZTJMSY25.js";import"./c.FGTTRULY.js";import"./c.WEOFLFZF.js";export{b as functions,a as keywords,d as sqlComplete,c as types};
