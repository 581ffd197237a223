import{a,b,c,d,e}from"./c.3UXYCO6E.js";import"./c.Y7AQBIVH.js";import"./c.I2YF5GO7.js";export{a as aggregations,d as contextOf,b as functions,c as modifiers,e as promqlComplete};
