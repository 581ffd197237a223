import{a,b,c,d,e}from"./c.UFSPQ4FT.js";import"./c.C5XIBSVV.js";import"./c.5UIX7T22.js";export{a as aggregations,d as contextOf,b as functions,c as modifiers,e as promqlComplete};
