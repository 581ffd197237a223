import{a,b,c,d,e}from"./c.WPPYMT67.js";import"./c.GXBYSAC4.js";import"./c.K3RACSUY.js";export{a as aggregations,d as contextOf,b as functions,c as modifiers,e as promqlComplete};
