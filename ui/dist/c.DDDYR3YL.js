import{a,b,c,d,e}from"./c.HJG3GGPV.js";import"./c.LYXALABG.js";import"./c.W7VN5GBK.js";export{a as aggregations,d as contextOf,b as functions,c as modifiers,e as promqlComplete};
