import{a,b,c,d,e}from"./c.4OR4XPJK.js";import"./c.FGTTRULY.js";import"./c.WEOFLFZF.js";export{a as aggregations,d as contextOf,b as functions,c as modifiers,e as promqlComplete};
